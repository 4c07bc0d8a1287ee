"""The order and the codes of CANN's checks by operator: what does not follow from the operator table."""

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product

from ..phase_one import Row
from ..table_calls import rows_of
from . import (
    attention,
    class_losses,
    convolution,
    elementwise,
    forward_pooling,
    functions,
    gathering,
    loss_values,
    norms,
    pads,
    pointwise_losses,
    pooling,
    products,
    reductions,
    rotary,
    row_values,
    sampling,
)

ORDERS = (
    attention.ORDERS
    | class_losses.ORDERS
    | convolution.ORDERS
    | elementwise.ORDERS
    | forward_pooling.ORDERS
    | functions.ORDERS
    | gathering.ORDERS
    | loss_values.ORDERS
    | norms.ORDERS
    | pads.ORDERS
    | pointwise_losses.ORDERS
    | pooling.ORDERS
    | products.ORDERS
    | reductions.ORDERS
    | rotary.ORDERS
    | row_values.ORDERS
    | sampling.ORDERS
)


def every_row(name: str, product: Product) -> dict[str, Row]:
    """Returns the rows of the operator table and of the operator's own order."""
    rows = rows_of(OPERATORS[name], product)
    if name in ORDERS:
        rows |= ORDERS[name].rows(next(iter(rows.values())).arguments, product)
    return rows
