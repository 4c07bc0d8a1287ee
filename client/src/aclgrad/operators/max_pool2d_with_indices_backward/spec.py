"""aclnnMaxPool2dWithIndicesBackward: the gradient of two-dimensional max pooling, given its argmax.

Atlas A2 and A3 compute in float32 alone, and with a dilation of 1. No device checks the indices, so the server does.
Some kernels ignore a position that is no cell of its own window (so does the 950 in the gaps of a dilated window),
others write to it. Devices read INT32; only the 950 reads INT64 as well.
"""

from collections.abc import Iterator

from aclgrad.errors import Violation
from aclgrad.operators.families.pooling2d.spec import (
    CEIL_MODE,
    DILATION,
    GRAD_INPUT,
    MAX_FORMULA,
    RANKS,
    TOLERANCES,
    WINDOWS,
    check_dilation,
    check_planes,
    check_pooled,
    check_windows,
    grad_output,
    pooled_input,
    pooling_of,
    windows_over,
)
from aclgrad.operators.rules import first_problem, same_dtype
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, same_on
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.operators.values import WindowRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_DTYPES = {
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32",)),
    Product.ASCEND_950: ("float32", "float16", "bfloat16"),
}


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    pooling = pooling_of(arguments)
    yield from first_problem(
        check_dilation(arguments, product),
        check_planes(arguments),
        check_windows(pooling),
        check_pooled(arguments, pooling, "grad_output", "indices"),
    )


def _window_rule(arguments: Arguments, product: Product) -> WindowRule:
    indices = arguments.inputs["indices"]
    read_as = indices if product is Product.ASCEND_950 else TensorType(DTYPES["int32"], indices.shape)
    return WindowRule(pooling_of(arguments), read_as)


SPEC = OperatorSpec(
    name="max_pool2d_with_indices_backward",
    symbol="aclnnMaxPool2dWithIndicesBackward",
    summary="Adds the gradient of every pooled cell to the cell that its index names.",
    formula=MAX_FORMULA,
    inputs=(
        grad_output(_DTYPES),
        pooled_input(_DTYPES, unread_on=frozenset(_DTYPES)),
        InputSpec(
            "indices",
            "The argmax, of the shape of `grad_output`, as PyTorch returns it: each index a cell of its own window.",
            same_on(tuple(_DTYPES), ("int64", "int32")),
            RANKS,
            values=_window_rule,
        ),
    ),
    attributes=(
        *WINDOWS,
        DILATION,
        CEIL_MODE,
    ),
    outputs=(GRAD_INPUT,),
    check=_check,
    tolerance=summed(by_dtype(TOLERANCES), windows_over),
)
