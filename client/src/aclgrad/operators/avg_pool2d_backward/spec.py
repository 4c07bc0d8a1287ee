"""aclnnAvgPool2dBackward: the gradient of two-dimensional average pooling.

Devices do not compare the pooled size, so it is checked before. What some of them would answer wrongly is refused:

* every product divides one window over all of a large plane by the cells of the plane, also if it covers padding;
* Atlas training and inference products compute as a convolution in FLOAT16, so float32 needs a `cube_math_type` of 1 or
  2; they divide a window that reaches beyond the padding by the whole kernel's size, ignore a `divisor_override` of 255
  or -255 without `count_include_pad`, and refuse larger ones.

Atlas A2 and A3 compute in FLOAT16 if `cube_math_type` is 1 or 2, and most of their kernels ignore it.
"""

from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling
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
from aclgrad.products import Product
from aclgrad.tensors import TensorType

CONVOLVING = (Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING)
"""The products that compute as a convolution in FLOAT16."""
_DTYPES = {
    **same_on(CONVOLVING, ("float32", "float16")),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_RANKS = (3, 4)
_MAX_DIVISOR: Final = 2**31 - 1
_MAX_CONVOLVED_DIVISOR: Final = 255
_MAX_OVERLAP: Final = 256
"""Windows that may cover one cell along an axis: each costs time."""
_LARGE: Final = 10
"""From this height and width on, a device has a kernel of its own for one window over all of a plane."""


def pooling_of(arguments: Arguments) -> Pooling:
    """Returns the geometry that the arguments describe."""
    return Pooling.of(
        arguments.inputs["self"].shape[-2:],
        arguments.ints("kernel_size"),
        arguments.ints("stride"),
        arguments.ints("padding"),
        bool(arguments.attributes["ceil_mode"]),
    )


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    input, grad_output = arguments.inputs["self"].shape, arguments.inputs["grad_output"].shape
    pooling = pooling_of(arguments)
    for axis, kernel in enumerate(pooling.kernel_size):
        if pooling.padding[axis] > kernel // 2:
            problem = f"is {arguments.ints('padding')} for kernel_size {pooling.kernel_size}"
            yield Violation("attributes[padding]", problem, "send at most half the kernel, rounded down")
            return
        if min(kernel // pooling.stride[axis], pooling.output_size[axis]) > _MAX_OVERLAP:
            problem = f"is {pooling.kernel_size} with stride {pooling.stride}"
            yield Violation("attributes[kernel_size]", problem, f"send at most {_MAX_OVERLAP} times the stride")
    if min(pooling.output_size) <= 0:
        problem = f"is {pooling.kernel_size}, larger than the padded {pooling.input_size} of inputs[self]"
        yield Violation("attributes[kernel_size]", problem, "send a kernel that fits")
        return
    pooled = (*input[:-2], *pooling.output_size)
    yield from equal_sizes("inputs[grad_output].shape", grad_output, "the pooled inputs[self]", pooled)
    if not arguments.int("divisor_override") and any(pooling.padding) and _has_one_window(pooling):
        remedy = "send a padding of 0, or the number of cells as divisor_override"
        yield Violation("attributes[padding]", f"is {pooling.padding}, which devices ignore for one window", remedy)
    if product in CONVOLVING:
        yield from _check_convolved(arguments, pooling, product)


def _has_one_window(pooling: Pooling) -> bool:
    is_whole = pooling.kernel_size == pooling.input_size and pooling.output_size == (1, 1)
    return is_whole and min(pooling.input_size) >= _LARGE


def _check_convolved(arguments: Arguments, pooling: Pooling, product: Product) -> Iterator[Violation]:
    divisor, counts_padding = arguments.int("divisor_override"), arguments.attributes["count_include_pad"]
    most = _MAX_CONVOLVED_DIVISOR if counts_padding else _MAX_CONVOLVED_DIVISOR - 1
    if abs(divisor) > most:
        remedy = f"send a value from -{most} to {most} to product {product}"
        yield Violation("attributes[divisor_override]", f"is {divisor}", remedy)
    if counts_padding and not divisor and _reaches_beyond(pooling):
        problem = f"is true, and product {product} counts also what is beyond the padding"
        yield Violation("attributes[ceil_mode]", problem, "send false for ceil_mode or for count_include_pad")
    precision, dtype = arguments.int("cube_math_type"), arguments.inputs["grad_output"].dtype.name
    if precision == 3 or (precision == 0 and dtype == "float32"):
        remedy = f"send 1 to product {product}, which computes in float16"
        yield Violation("attributes[cube_math_type]", f"is {precision} for {dtype}", remedy)


def _reaches_beyond(pooling: Pooling) -> bool:
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


def _grad_input(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


_HALF = Tolerance(relative=4e-3, absolute=1e-3)

SPEC = OperatorSpec(
    name="avg_pool2d_backward",
    symbol="aclnnAvgPool2dBackward",
    summary="Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.",
    formula=(
        "Every cell of the window of pooled cell (i, j) receives grad_output[i, j] divided by `divisor_override`, or, "
        "if that is 0, by the number of the window's cells, padding included unless `count_include_pad` is false; "
        "overlapping windows add up (PyTorch: aten::avg_pool2d_backward)."
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
            "ceil_mode",
            "Rounds the pooled size up, so that a last window may reach beyond the padded plane.",
            AttributeKind.BOOL,
            default=False,
        ),
        AttributeSpec(
            "count_include_pad", "Counts padding among the cells of a window.", AttributeKind.BOOL, default=True
        ),
        AttributeSpec(
            "divisor_override",
            "What windows are divided by; 0 for the number of their cells.",
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
    ),
    output=OutputSpec("grad_input", "The gradient of `self`, with its shape and dtype.", _grad_input),
    check=_check,
    tolerances={
        "float32": Tolerance(relative=1e-5, absolute=1e-6),
        "float16": Tolerance(relative=1e-3, absolute=1e-3),
        "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
    },
    # A convolution in FLOAT16, with a divisor that is rounded to it.
    coarse={(product, dtype): _HALF for product in CONVOLVING for dtype in ("float32", "float16")},
)
