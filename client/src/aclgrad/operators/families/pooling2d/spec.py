"""What the rows of the operator table that are two-dimensional pooling, or its gradients, share."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling
from aclgrad.operators.rules import equal_sizes
from aclgrad.operators.spec import Arguments, AttributeKind, AttributeSpec, InputSpec, OutputSpec, Tolerance
from aclgrad.products import Product
from aclgrad.tensors import TensorType

Dtypes = Mapping[Product, tuple[str, ...]]

RANKS: Final = (3, 4)
_MAX_CELLS: Final = 2**31 - 1
"""Cells of a plane that is max-pooled: indices are checked in int32, and devices count in it."""
_MAX_DIVISOR: Final = 2**31 - 1
_MAX_OVERLAP: Final = 64
_MAX_SPAN: Final = 2**31 - 1
"""Cells along an axis from the first of a window to its last."""


def windows(plural: str = "") -> tuple[AttributeSpec, ...]:
    """Returns the attributes that say where windows are; two names of one operator are plurals."""
    return (
        AttributeSpec("kernel_size", "Height and width of a window.", AttributeKind.INTS, (1, 2), minimum=1),
        AttributeSpec(
            f"stride{plural}",
            "Distance of the windows; empty for the size of the kernel.",
            AttributeKind.INTS,
            (0, 1, 2),
            default=(),
            minimum=1,
        ),
        AttributeSpec(
            f"padding{plural}",
            "Cells added on both sides, at most half the kernel.",
            AttributeKind.INTS,
            (1, 2),
            default=(0,),
            minimum=0,
        ),
    )


WINDOWS: Final = windows()
DILATION: Final = AttributeSpec(
    "dilation",
    "Distance of the cells of a window; 1 except on product 950.",
    AttributeKind.INTS,
    (1, 2),
    default=(1,),
    minimum=1,
)
CEIL_MODE: Final = AttributeSpec(
    "ceil_mode",
    "Rounds the pooled size up, so that a last window may reach beyond the padded plane.",
    AttributeKind.BOOL,
    default=False,
)
AVERAGES: Final = (
    AttributeSpec("count_include_pad", "Counts padding among the cells of a window.", AttributeKind.BOOL, default=True),
    AttributeSpec(
        "divisor_override",
        "The divisor of every window; 0 for the number of its cells.",
        AttributeKind.INT,
        default=0,
        minimum=-_MAX_DIVISOR,
        maximum=_MAX_DIVISOR,
    ),
    AttributeSpec(
        "cube_math_type",
        "How precisely matrix units may compute: 0 as the dtype, 1 less than float32, 2 in FLOAT16, 3 in HFLOAT32.",
        AttributeKind.INT,
        default=0,
        minimum=0,
        maximum=3,
    ),
)
MAX_FORMULA: Final = (
    "grad_input[n, c, indices[n, c, oh, ow]] += grad_output[n, c, oh, ow], every other cell is 0; an index counts "
    "ih * W + iw in the unpadded plane (PyTorch: aten::max_pool2d_with_indices_backward)."
)
GRAD_INPUT: Final = OutputSpec(
    "grad_input", "The gradient of `self`, with its shape and dtype.", lambda arguments: arguments.inputs["self"]
)
TOLERANCES: Final = {
    "float32": Tolerance(relative=1e-5, absolute=1e-6),
    "float16": Tolerance(relative=1e-3, absolute=1e-3),
    "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
}


def grad_output(dtypes: Dtypes) -> InputSpec:
    """Returns the input that is the gradient of the pooled tensor."""
    summary = "The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW)."
    return InputSpec("grad_output", summary, dtypes, RANKS)


def pooled_input(
    dtypes: Dtypes, unread_on: frozenset[Product], read_for: Callable[[Arguments], bool] = lambda _: False
) -> InputSpec:
    """Returns the input `self`."""
    summary = "The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter."
    return InputSpec("self", summary, dtypes, RANKS, unread_on, read_for)


def pooling_of(arguments: Arguments) -> Pooling:
    """Returns the geometry that the arguments describe."""
    dilation = arguments.ints("dilation") if "dilation" in arguments.attributes else 1
    plural = "s" if "strides" in arguments.attributes else ""
    return Pooling.of(
        arguments.inputs["self"].shape[-2:],
        arguments.ints("kernel_size"),
        arguments.ints(f"stride{plural}"),
        arguments.ints(f"padding{plural}"),
        bool(arguments.attributes["ceil_mode"]),
        dilation,
    )


def pooled_type(arguments: Arguments) -> TensorType:
    """Returns the type of what `self` is pooled to."""
    self = arguments.inputs["self"]
    return TensorType(self.dtype, (*self.shape[:-2], *pooling_of(arguments).output_size))


def windows_over(arguments: Arguments) -> float:
    """Returns how many windows may have a cell in common."""
    pooling = pooling_of(arguments)
    axes = zip(pooling.kernel_size, pooling.stride, pooling.dilation, pooling.output_size, strict=True)
    return float(
        math.prod(
            max(min(kernel if dilation > 1 else -(-kernel // stride), count), 1)
            for kernel, stride, dilation, count in axes
        )
    )


def check_windows(pooling: Pooling, plural: str = "") -> Iterator[Violation]:
    """The padding is at most half the kernel, and a window fits the padded plane."""
    kernel = f"kernel_size {pooling.kernel_size}"
    if any(padding > size // 2 for padding, size in zip(pooling.padding, pooling.kernel_size, strict=True)):
        problem = f"is {pooling.padding} for {kernel}"
        yield Violation(f"attributes[padding{plural}]", problem, "send at most half the kernel, rounded down")
    elif min(pooling.output_size) <= 0 or max(pooling.span) > _MAX_SPAN:
        dilation = f" with dilation {pooling.dilation}" if pooling.dilation != (1, 1) else ""
        problem = f"is {pooling.kernel_size}{dilation}, larger than the padded {pooling.input_size} of inputs[self]"
        yield Violation("attributes[kernel_size]", problem, "send a kernel that fits")


def check_dilation(arguments: Arguments, product: Product) -> Iterator[Violation]:
    """Only the 950 has another one than 1."""
    dilation = arguments.ints("dilation")
    if product is not Product.ASCEND_950 and set(dilation) != {1}:
        yield Violation("attributes[dilation]", f"is {dilation}", f"send 1: product {product} has no other")


def check_overlap(pooling: Pooling) -> Iterator[Violation]:
    """Not many windows cover one cell along an axis: each costs time, and few bytes must not keep a device busy."""
    axes = zip(pooling.kernel_size, pooling.stride, pooling.output_size, strict=True)
    if any(min(kernel // stride, count) > _MAX_OVERLAP for kernel, stride, count in axes):
        problem = f"is {pooling.kernel_size} with stride {pooling.stride}"
        yield Violation("attributes[kernel_size]", problem, f"send at most {_MAX_OVERLAP} times the stride")


def reaches_beyond(pooling: Pooling) -> bool:
    """Returns whether a window reaches beyond the padding."""
    return any(
        (count - 1) * stride + kernel > size + 2 * padding
        for count, stride, kernel, size, padding in zip(
            pooling.output_size,
            pooling.stride,
            pooling.kernel_size,
            pooling.input_size,
            pooling.padding,
            strict=True,
        )
    )


def check_planes(arguments: Arguments) -> Iterator[Violation]:
    """Only the batch may be empty, and an int32 counts the cells of a plane."""
    input = arguments.inputs["self"].shape
    if 0 in input[-3:]:
        yield Violation("inputs[self].shape", f"is {input}", "send a channel, height and width above 0")
    elif input[-2] * input[-1] > _MAX_CELLS:
        yield Violation("inputs[self].shape", f"has planes of more than {_MAX_CELLS} cells", "send smaller planes")


def check_pooled(arguments: Arguments, pooling: Pooling, *names: str) -> Iterator[Violation]:
    """The named inputs have the shape of the pooled tensor."""
    pooled = (*arguments.inputs["self"].shape[:-2], *pooling.output_size)
    for name in names:
        have = arguments.inputs[name].shape
        yield from equal_sizes(f"inputs[{name}].shape", have, "the pooled inputs[self]", pooled)
