"""aclnnMaxPool2dWithMaskBackward: the gradient of two-dimensional max pooling."""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling, mask_layout, pair
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.pooling2d.spec import (
    CEIL_MODE,
    GRAD_INPUT,
    MAX_FORMULA,
    RANKS,
    TOLERANCES,
    WINDOWS,
    check_planes,
    check_pooled,
    check_windows,
    grad_output,
    pooled_input,
    pooling_of,
    windows_over,
)
from aclgrad.operators.rules import equal_sizes, first_problem, same_dtype
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec, InputSpec, OperatorSpec, same_on
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.operators.values import ArgmaxRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_PRODUCTS = (Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ATLAS_A3)
_DTYPES = {
    Product.ATLAS_TRAINING: ("float32", "float16"),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32", "float16", "bfloat16")),
}
MASK: Final = "int8"


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    pooling = pooling_of(arguments)
    yield from first_problem(check_planes(arguments), check_windows(pooling), _check_shapes(arguments, pooling))


def _check_shapes(arguments: Arguments, pooling: Pooling) -> Iterator[Violation]:
    indices = arguments.inputs["indices"]
    is_mask = indices.dtype.name == MASK
    yield from check_pooled(arguments, pooling, "grad_output", *(() if is_mask else ("indices",)))
    if is_mask:
        mask = pooling.mask_shape(arguments.inputs["self"].shape[:-2])
        yield from equal_sizes("inputs[indices].shape", indices.shape, "the mask", mask)


def _argmax_rule(arguments: Arguments, product: Product) -> ArgmaxRule:
    pooling = pooling_of(arguments)
    mask = TensorType(DTYPES[MASK], pooling.mask_shape(arguments.inputs["self"].shape[:-2]))
    return ArgmaxRule(pooling, mask_layout(product, pooling.kernel_size), mask)


def _has_one_cell_windows(arguments: Arguments) -> bool:
    return pair(arguments.ints("kernel_size")) == (1, 1)


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    """A mask has the places of all planes first, so masks do not join."""
    return None if arguments.inputs["indices"].dtype.name == MASK else BatchAxes()


_COARSE: Final = {(Product.ATLAS_TRAINING, "float32"): TOLERANCES["float16"]}
"""The chip casts to half for the whole computation."""

SPEC = OperatorSpec(
    name="max_pool2d_with_mask_backward",
    symbol="aclnnMaxPool2dWithMaskBackward",
    summary="Adds the gradient of every pooled cell to the cell that it was taken from.",
    formula=MAX_FORMULA,
    inputs=(
        grad_output(_DTYPES),
        pooled_input(_DTYPES, frozenset({Product.ATLAS_A2, Product.ATLAS_A3}), read_for=_has_one_cell_windows),
        InputSpec(
            "indices",
            "The argmax of the shape of `grad_output`, as PyTorch returns it (int32, int64), or the device's own int8 "
            "mask of shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32); `aclgrad.masks` converts.",
            same_on(_PRODUCTS, ("int64", "int32", MASK)),
            RANKS,
            values=_argmax_rule,
        ),
    ),
    attributes=(
        *WINDOWS,
        AttributeSpec("dilation", "Always 1.", AttributeKind.INTS, (1, 2), default=(1,), minimum=1, maximum=1),
        CEIL_MODE,
    ),
    outputs=(GRAD_INPUT,),
    check=_check,
    tolerance=summed(by_dtype(TOLERANCES, _COARSE), windows_over),
    batch_axes=_batch_axes,
)
