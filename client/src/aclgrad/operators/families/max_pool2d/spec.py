"""The rows of the operator table that are two-dimensional max pooling.

What the gradient reads differs: Atlas A2 and A3 have a kernel of indices for float32 alone, and a mask for the others.
So indices are INT32 here, as that kernel reads them, and masks stay on the device.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling, mask_layout
from aclgrad.operators.batch_axes import BatchAxes, along_the_first
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.families.pooling2d.spec import (
    CEIL_MODE,
    DILATION,
    RANKS,
    WINDOWS,
    check_dilation,
    check_planes,
    check_windows,
    pooled_type,
    pooling_of,
)
from aclgrad.operators.rules import first_problem
from aclgrad.operators.spec import Arguments, InputSpec, OperatorKind, OperatorSpec, OutputSpec, Tolerance
from aclgrad.operators.tolerance import by_dtype
from aclgrad.operators.values import ArgmaxRule, WindowRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

Dtypes = Mapping[Product, tuple[str, ...]]

_MASKED: Final = {
    **floats(without=(Product.ASCEND_950, Product.ATLAS_INFERENCE)),
    Product.ATLAS_INFERENCE: ("float32",),
}
_EXACT: Final = Tolerance(0.0, 0.0)
_COARSE: Final = {(Product.ATLAS_TRAINING, "float32"): Tolerance(relative=2.0**-11, absolute=2.0**-25)}
"""The chip casts to half."""


def _check_cells(pooling: Pooling) -> Iterator[Violation]:
    """With a dilation, a window may have all of its cells in the padding, and its index would be none of them."""
    for axis in (0, 1):
        size, step, dilation = (each[axis] for each in (pooling.input_size, pooling.stride, pooling.dilation))
        begins = range(-pooling.padding[axis], 0, step) if dilation > size else ()
        if any(begin % dilation >= size for begin in begins):
            problem = f"is {pooling.dilation}, with which a window has no cell of inputs[self]"
            yield Violation("attributes[dilation]", problem, "send a smaller dilation, or no padding")
            return


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    pooling = pooling_of(arguments)
    yield from first_problem(
        check_dilation(arguments, product), check_planes(arguments), check_windows(pooling), _check_cells(pooling)
    )


def _indices(arguments: Arguments) -> TensorType:
    return TensorType(DTYPES["int32"], pooled_type(arguments).shape)


def _mask(arguments: Arguments) -> TensorType:
    return TensorType(DTYPES["int8"], pooling_of(arguments).mask_shape(arguments.inputs["self"].shape[:-2]))


def _argmax_rule(arguments: Arguments, product: Product) -> ArgmaxRule:
    pooling = pooling_of(arguments)
    return ArgmaxRule(pooling, mask_layout(product, pooling.kernel_size), _mask(arguments))


def _comparisons(arguments: Arguments) -> float:
    return float(pooled_type(arguments).element_count * pooling_of(arguments).window_cells)


def max_pool_spec(
    name: str,
    symbol: str,
    dtypes: Dtypes,
    about: str,
    indices: OutputSpec,
    batch_axes: Callable[[Arguments], BatchAxes | None] = along_the_first,
) -> OperatorSpec:
    """Returns the row of an operator that also says where the maxima are: `about` says how."""
    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=f"Takes the maximum of each window of a plane, and {about}.",
        formula=(
            "out[n, c, oh, ow] = the maximum of self[n, c] over the window; NaN is larger than any number. The padding "
            "is minus infinity (PyTorch: aten::max_pool2d_with_indices)."
        ),
        inputs=(InputSpec("self", "The tensor, shape (N, C, H, W) or (C, H, W).", dtypes, RANKS),),
        attributes=(*WINDOWS, DILATION, CEIL_MODE),
        outputs=(
            OutputSpec("out", "The maxima, shape (N, C, oH, oW) or (C, oH, oW), dtype of `self`.", pooled_type),
            indices,
        ),
        check=_check,
        tolerance=by_dtype(dict.fromkeys(("float32", "float16", "bfloat16"), _EXACT), _COARSE),
        kind=OperatorKind.VALUE,
        operations=_comparisons,
        batch_axes=batch_axes,
    )


SPECS: Final = (
    max_pool_spec(
        "max_pool2d_with_indices",
        "aclnnMaxPool2dWithIndices",
        floats(without=(Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)),
        "says where they are",
        OutputSpec(
            "indices",
            "The argmax ih * W + iw, int32, shape of `out`: of equal numbers the first, of NaN the last.",
            _indices,
            guarantees=lambda arguments, _: WindowRule(pooling_of(arguments), _indices(arguments)),
        ),
    ),
    # The 310P has no gradient.
    max_pool_spec(
        "max_pool2d_with_mask",
        "aclnnMaxPool2dWithMask",
        _MASKED,
        "keeps a mask for max_pool2d_with_mask_backward",
        OutputSpec(
            "indices",
            "The product's own mask, int8, shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32).",
            _mask,
            guarantees=_argmax_rule,
            stays_inside=True,
        ),
        # A mask has the places of all planes first, so masks do not join.
        batch_axes=lambda _: None,
    ),
)
