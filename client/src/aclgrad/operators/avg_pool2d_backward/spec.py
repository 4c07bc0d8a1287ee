"""aclnnAvgPool2dBackward: the gradient of two-dimensional average pooling.

Devices do not compare the pooled size, so it is checked before. What some of them would answer wrongly is refused:

* every product divides one window over all of a large plane by the cells of the plane, also if it covers padding;
* Atlas training and inference products compute as a convolution in FLOAT16, so float32 needs a `cube_math_type` of 1 or
  2; they divide a window that reaches beyond the padding by the whole kernel's size, ignore a `divisor_override` of 255
  or -255 without `count_include_pad`, and refuse larger ones.

Atlas A2 and A3 compute as a convolution if `_is_convolved_on_a2` says so: in FLOAT16 if `cube_math_type` is 1 or 2, in
HFLOAT32 if it is 3. Their other kernels ignore it. For one window over all of a large plane, every product divides by
the number of cells, in FLOAT16 for float16 and if `cube_math_type` is 1 or 2. More than 65504 cells are infinite there,
and all gradients 0, so such a call is refused.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling
from aclgrad.operators.families.pooling2d.spec import (
    AVERAGES,
    CEIL_MODE,
    GRAD_INPUT,
    TOLERANCES,
    WINDOWS,
    check_overlap,
    check_pooled,
    check_windows,
    grad_output,
    pooled_input,
    pooling_of,
    reaches_beyond,
    windows_over,
)
from aclgrad.operators.routes import FLOAT16, HFLOAT32, Route
from aclgrad.operators.rules import first_problem, same_dtype
from aclgrad.operators.spec import Arguments, OperatorSpec, same_on
from aclgrad.operators.tolerance import by_dtype, routed, summed
from aclgrad.products import Product

CONVOLVING = (Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING)
"""The products that compute as a convolution in FLOAT16."""
_PARTLY_CONVOLVING: Final = (Product.ATLAS_A2, Product.ATLAS_A3)
_DTYPES = {
    **same_on(CONVOLVING, ("float32", "float16")),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_MAX_CONVOLVED_DIVISOR: Final = 255
_CONVOLVED_CHANNELS: Final = 65536
_LARGE: Final = 10
"""From this height and width on, a device has a kernel of its own for one window over all of a plane."""


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    pooling = pooling_of(arguments)
    yield from first_problem(
        check_windows(pooling), check_overlap(pooling), check_pooled(arguments, pooling, "grad_output")
    )
    if not arguments.int("divisor_override") and any(pooling.padding) and _has_one_window(pooling):
        remedy = "send a padding of 0, or the number of cells as divisor_override"
        yield Violation("attributes[padding]", f"is {pooling.padding}, which devices ignore for one window", remedy)
    if _is_divided_in_half(arguments, pooling) and (cells := math.prod(pooling.kernel_size)) > FLOAT16.largest:
        problem = f"has one window of {cells} cells, a number that is infinite in FLOAT16"
        remedy = f"send at most {FLOAT16.largest:.0f} cells, or a divisor_override"
        yield Violation("inputs[self].shape", problem, remedy)
    if product in CONVOLVING:
        yield from _check_convolved(arguments, pooling, product)


def _operations(arguments: Arguments) -> float:
    """Every cell adds the gradients of the windows over it."""
    pooling = pooling_of(arguments)
    axes = zip(pooling.kernel_size, pooling.stride, pooling.output_size, strict=True)
    windows = math.prod(min(-(-kernel // stride), count) for kernel, stride, count in axes)
    return arguments.inputs["grad_output"].element_count + arguments.inputs["self"].element_count * windows


def _has_one_window(pooling: Pooling) -> bool:
    is_whole = pooling.kernel_size == pooling.input_size and pooling.output_size == (1, 1)
    return is_whole and min(pooling.input_size) >= _LARGE


def _check_convolved(arguments: Arguments, pooling: Pooling, product: Product) -> Iterator[Violation]:
    divisor, counts_padding = arguments.int("divisor_override"), arguments.attributes["count_include_pad"]
    most = _MAX_CONVOLVED_DIVISOR if counts_padding else _MAX_CONVOLVED_DIVISOR - 1
    if abs(divisor) > most:
        remedy = f"send a value from -{most} to {most} to product {product}"
        yield Violation("attributes[divisor_override]", f"is {divisor}", remedy)
    if counts_padding and not divisor and reaches_beyond(pooling):
        problem = f"is true, and product {product} counts also what is beyond the padding"
        yield Violation("attributes[ceil_mode]", problem, "send false for ceil_mode or for count_include_pad")
    precision, dtype = arguments.int("cube_math_type"), arguments.inputs["grad_output"].dtype.name
    if precision == 3 or (precision == 0 and dtype == "float32"):
        remedy = f"send 1 to product {product}, which computes in float16"
        yield Violation("attributes[cube_math_type]", f"is {precision} for {dtype}", remedy)


def _route(arguments: Arguments, product: Product) -> Route | None:
    """A convolution rounds gradients, weights and sums; of float16, gradients are rounded already.

    Products with a divisor for each window multiply gradients by the reciprocals first, and have weights of 1. Sums in
    HFLOAT32 are those of FLOAT32.
    """
    pooling, divisor = pooling_of(arguments), arguments.int("divisor_override")
    if not all(each.element_count for each in arguments.inputs.values()):
        return None
    is_half, is_float16 = _is_half(arguments), arguments.inputs["grad_output"].dtype.name == "float16"
    if _is_divided_in_half(arguments, pooling):
        return Route(FLOAT16, 2 if is_float16 else 3, 1, 1.0)
    if not divisor and _has_one_window(pooling):
        return None
    if product not in CONVOLVING and not (product in _PARTLY_CONVOLVING and _is_convolved_on_a2(arguments, pooling)):
        return None
    windows = math.prod(-(-kernel // step) for kernel, step in zip(pooling.kernel_size, pooling.stride, strict=True))
    weight = 1 / (abs(divisor) or math.prod(pooling.kernel_size))
    if is_half:
        is_multiplied = not divisor and not arguments.attributes["count_include_pad"]
        return Route(FLOAT16, 3 if is_multiplied == is_float16 else 2, windows, weight)
    return Route(HFLOAT32, 2, windows, weight) if arguments.int("cube_math_type") == 3 else None


def _weight(arguments: Arguments) -> float:
    """Returns what gradients are multiplied by: of cells without padding, a window has a quarter at least."""
    divisor = arguments.int("divisor_override")
    return 1 / abs(divisor) if divisor else min(4 / math.prod(pooling_of(arguments).kernel_size), 1.0)


def _is_divided_in_half(arguments: Arguments, pooling: Pooling) -> bool:
    return not arguments.int("divisor_override") and _has_one_window(pooling) and _is_half(arguments)


def _is_half(arguments: Arguments) -> bool:
    return arguments.inputs["grad_output"].dtype.name == "float16" or arguments.int("cube_math_type") in (1, 2)


def _is_convolved_on_a2(arguments: Arguments, pooling: Pooling) -> bool:
    (height, width), (rows, columns) = pooling.input_size, pooling.kernel_size
    is_long = width // height >= 2 or height // width >= 2
    is_small = max(rows, columns) <= 255 and (rows * columns <= 255 or max(rows, columns) <= 20)
    counts_all = arguments.attributes["count_include_pad"] and not arguments.attributes["ceil_mode"]
    channels = arguments.inputs["grad_output"].shape[-3]
    has_divisor = abs(arguments.int("divisor_override")) <= _MAX_CONVOLVED_DIVISOR
    return bool(counts_all) and is_small and not is_long and has_divisor and channels < _CONVOLVED_CHANNELS


SPEC = OperatorSpec(
    name="avg_pool2d_backward",
    symbol="aclnnAvgPool2dBackward",
    summary="Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.",
    formula=(
        "Every cell of the window of pooled cell (i, j) receives grad_output[i, j] divided by `divisor_override`, or, "
        "if that is 0, by the number of the window's cells, padding included unless `count_include_pad` is false; "
        "overlapping windows add up (PyTorch: aten::avg_pool2d_backward)."
    ),
    inputs=(grad_output(_DTYPES), pooled_input(_DTYPES, unread_on=frozenset(_DTYPES))),
    attributes=(
        *WINDOWS,
        CEIL_MODE,
        *AVERAGES,
    ),
    outputs=(GRAD_INPUT,),
    check=_check,
    tolerance=routed(summed(by_dtype(TOLERANCES), windows_over, weight=_weight), _route),
    operations=_operations,
)
