"""The order and the codes of CANN's checks by operator: what does not follow from the operator table."""

from importlib import import_module
from pathlib import Path

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product

from ..phase_one import Order, Row
from ..table_calls import rows_of
from .elementwise import ORDERS as ELEMENTWISE
from .grid_sampler import ORDERS as GRID_SAMPLER
from .pads import ORDERS as PADS
from .softmax import ORDERS as SOFTMAX


def _order(name: str) -> Order:
    table = import_module(f".{name}", __package__)
    return Order(table.VALID, table.ACCEPTED, table.REFUSED, getattr(table, "OTHERWISE", {}))


ORDERS = (
    ELEMENTWISE
    | GRID_SAMPLER
    | PADS
    | SOFTMAX
    | {path.stem: _order(path.stem) for path in Path(__file__).parent.glob("*_*.py") if path.stem in OPERATORS}
)


def every_row(name: str, product: Product) -> dict[str, Row]:
    """Returns the rows of the operator table and of the operator's own order."""
    return rows_of(OPERATORS[name], product) | (ORDERS[name].rows(product) if name in ORDERS else {})
