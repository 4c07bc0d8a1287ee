"""aclnnMaxPool2dWithIndicesBackward: the gradient of two-dimensional max pooling, given its argmax.

Atlas A2 and A3 compute in float32 alone, and with a dilation of 1. No device checks the indices: some kernels drop a
position that is no cell of its own window (so does the 950 in the gaps of a dilated window), others write to it, so each
is checked before. Devices read INT32; only the 950 reads INT64 as well.
"""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling, pair
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
from aclgrad.operators.values import WindowRule
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_DTYPES = {
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3), ("float32",)),
    Product.ASCEND_950: ("float32", "float16", "bfloat16"),
}
_RANKS = (3, 4)
_MAX_CELLS: Final = 2**31 - 1
"""Cells of a plane: the server counts them in int32, and so do most devices."""
_MAX_SPAN: Final = 2**31 - 1
"""Cells from the first of a window to its last."""


def pooling_of(arguments: Arguments) -> Pooling:
    """Returns the geometry that the arguments describe, with windows as large as dilation makes them."""
    kernel, dilation = pair(arguments.ints("kernel_size")), pair(arguments.ints("dilation"))
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    stride = arguments.ints("stride") or kernel
    input = arguments.inputs["self"].shape[-2:]
    return Pooling.of(input, spans, stride, arguments.ints("padding"), bool(arguments.attributes["ceil_mode"]))


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    input, kernel, dilation = arguments.inputs["self"].shape, arguments.ints("kernel_size"), arguments.ints("dilation")
    if product is not Product.ASCEND_950 and set(dilation) != {1}:
        yield Violation("attributes[dilation]", f"is {dilation}", f"send 1: product {product} has no other")
        return
    pooling = pooling_of(arguments)
    for padding, size in zip(pooling.padding, pair(kernel), strict=True):
        if padding > size // 2:
            problem = f"is {arguments.ints('padding')} for kernel_size {pair(kernel)}"
            yield Violation("attributes[padding]", problem, "send at most half the kernel, rounded down")
            return
    if 0 in input[-3:]:
        yield Violation("inputs[self].shape", f"is {input}", "send a channel, height and width above 0")
    elif min(pooling.output_size) <= 0 or max(pooling.kernel_size) > _MAX_SPAN:
        problem = f"is {kernel} with dilation {dilation}, larger than the padded {pooling.input_size} of inputs[self]"
        yield Violation("attributes[kernel_size]", problem, "send a kernel that fits")
    elif pooling.input_size[0] * pooling.input_size[1] > _MAX_CELLS:
        yield Violation("inputs[self].shape", f"has planes of more than {_MAX_CELLS} cells", "send smaller planes")
    else:
        pooled = (*input[:-2], *pooling.output_size)
        for name in ("grad_output", "indices"):
            have = arguments.inputs[name].shape
            yield from equal_sizes(f"inputs[{name}].shape", have, "the pooled inputs[self]", pooled)


def _window_rule(arguments: Arguments, product: Product) -> WindowRule:
    indices = arguments.inputs["indices"]
    read_as = indices if product is Product.ASCEND_950 else TensorType(DTYPES["int32"], indices.shape)
    return WindowRule(pooling_of(arguments), pair(arguments.ints("dilation")), read_as)


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


SPEC = OperatorSpec(
    name="max_pool2d_with_indices_backward",
    symbol="aclnnMaxPool2dWithIndicesBackward",
    summary="Adds the gradient of every pooled cell to the cell that its index names.",
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
            unread_on=frozenset(_DTYPES),
        ),
        InputSpec(
            "indices",
            "The argmax, of the shape of `grad_output`, as PyTorch returns it: each index a cell of its own window.",
            same_on(tuple(_DTYPES), ("int64", "int32")),
            _RANKS,
            values=_window_rule,
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
        AttributeSpec(
            "dilation",
            "Distance of the cells of a window; 1 but for the product 950.",
            AttributeKind.INTS,
            (1, 2),
            default=(1,),
            minimum=1,
        ),
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
        "float16": Tolerance(relative=1e-3, absolute=1e-3),
        "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
    },
)
