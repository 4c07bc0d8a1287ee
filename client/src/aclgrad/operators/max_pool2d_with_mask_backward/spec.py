"""aclnnMaxPool2dWithMaskBackward: the gradient of two-dimensional max pooling."""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling, mask_layout, pair
from aclgrad.operators.rules import equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    same_on,
)
from aclgrad.operators.values import ArgmaxRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_PRODUCTS = (Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ATLAS_A3)
_DTYPES = {
    Product.ATLAS_TRAINING: ("float32", "float16"),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32", "float16", "bfloat16")),
}
_RANKS = (3, 4)
MASK: Final = "int8"
_MAX_CELLS: Final = 2**31 - 1
"""Cells of a plane: the device counts them in int32."""


def pooling_of(arguments: Arguments) -> Pooling:
    """Returns the geometry that the arguments describe."""
    height, width = arguments.inputs["self"].shape[-2:]
    return Pooling.of(
        (height, width),
        arguments.ints("kernel_size"),
        arguments.ints("stride"),
        arguments.ints("padding"),
        bool(arguments.attributes["ceil_mode"]),
    )


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    input = arguments.inputs["self"].shape
    pooling = pooling_of(arguments)
    for padding, kernel in zip(pooling.padding, pooling.kernel_size, strict=True):
        if padding > kernel // 2:
            problem = f"is {arguments.ints('padding')} for kernel_size {pooling.kernel_size}"
            yield Violation("attributes[padding]", problem, "send at most half the kernel, rounded down")
            return
    if 0 in input[-3:]:
        yield Violation("inputs[self].shape", f"is {input}", "send a channel, height and width above 0")
    elif min(pooling.output_size) <= 0:
        problem = f"is {pooling.kernel_size}, larger than the padded {pooling.input_size} of inputs[self]"
        yield Violation("attributes[kernel_size]", problem, "send a kernel that fits")
    elif pooling.input_size[0] * pooling.input_size[1] > _MAX_CELLS:
        yield Violation("inputs[self].shape", f"has planes of more than {_MAX_CELLS} cells", "send smaller planes")
    else:
        yield from _check_shapes(arguments, pooling)


def _check_shapes(arguments: Arguments, pooling: Pooling) -> Iterator[Violation]:
    leading = arguments.inputs["self"].shape[:-2]
    pooled = (*leading, *pooling.output_size)
    yield from equal_sizes(
        "inputs[grad_output].shape", arguments.inputs["grad_output"].shape, "the pooled inputs[self]", pooled
    )
    indices = arguments.inputs["indices"]
    if indices.dtype.name == MASK:
        yield from equal_sizes("inputs[indices].shape", indices.shape, "the mask", pooling.mask_shape(leading))
    else:
        yield from equal_sizes("inputs[indices].shape", indices.shape, "the argmax", pooled)


def _argmax_rule(arguments: Arguments, product: Product) -> ArgmaxRule:
    pooling = pooling_of(arguments)
    mask = TensorType(DTYPES[MASK], pooling.mask_shape(arguments.inputs["self"].shape[:-2]))
    return ArgmaxRule(pooling, mask_layout(product, pooling.kernel_size), mask)


def _has_one_cell_windows(arguments: Arguments) -> bool:
    return pair(arguments.ints("kernel_size")) == (1, 1)


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


_HALF = Tolerance(relative=1e-3, absolute=1e-3)

SPEC = OperatorSpec(
    name="max_pool2d_with_mask_backward",
    symbol="aclnnMaxPool2dWithMaskBackward",
    summary="Adds the gradient of every pooled cell to the cell that it was taken from.",
    formula=(
        "grad_input[n, c, indices[n, c, oh, ow]] += grad_output[n, c, oh, ow], every other cell is 0; an index counts "
        "ih * W + iw in the unpadded plane (PyTorch: aten::max_pool2d_with_indices_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output", "The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW).", _DTYPES, _RANKS
        ),
        InputSpec(
            "self",
            "The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset({Product.ATLAS_A2, Product.ATLAS_A3}),
            read_for=_has_one_cell_windows,
        ),
        InputSpec(
            "indices",
            "The argmax of the shape of `grad_output`, as PyTorch returns it (int32, int64), or the device's own int8 "
            "mask of shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32); `aclgrad.masks` converts.",
            same_on(_PRODUCTS, ("int64", "int32", MASK)),
            _RANKS,
            values=_argmax_rule,
        ),
    ),
    attributes=(
        AttributeSpec("kernel_size", "Height and width of a window.", AttributeKind.INTS, (1, 2), minimum=1),
        AttributeSpec(
            "stride",
            "Distance of the windows; empty for the size of the kernel.",
            AttributeKind.INTS,
            (0, 1, 2),
            default=(),
            minimum=1,
        ),
        AttributeSpec(
            "padding",
            "Cells added on both sides, at most half the kernel.",
            AttributeKind.INTS,
            (1, 2),
            default=(0,),
            minimum=0,
        ),
        AttributeSpec("dilation", "Always 1.", AttributeKind.INTS, (1, 2), default=(1,), minimum=1, maximum=1),
        AttributeSpec(
            "ceil_mode",
            "Rounds the pooled size up, so that a last window may reach beyond the padded plane.",
            AttributeKind.BOOL,
            default=False,
        ),
    ),
    output=OutputSpec("grad_input", "The gradient of `self`, with its shape and dtype.", _grad_input),
    check=_check,
    tolerances={
        "float32": Tolerance(relative=1e-5, absolute=1e-6),
        "float16": _HALF,
        "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
    },
    # The chip casts to half for the whole computation.
    coarse={(Product.ATLAS_TRAINING, "float32"): _HALF},
)
