"""aclnnAvgPool2d: two-dimensional average pooling.

Atlas training and inference products multiply windows by weights in FLOAT16, so float32 needs a `cube_math_type` of 1
or 2. They divide a window that reaches beyond the padding by the whole kernel's size, which is refused. Atlas A2 and A3
multiply so, too, if `_is_convolved_on_a2` says so: float32 as it is, or in FLOAT16 with 2; 1 and 3 are refused. One
window over all of a plane is a mean. The 950 ignores `cube_math_type`.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.masks import Pooling
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.families.pooling2d.spec import (
    AVERAGES,
    CEIL_MODE,
    RANKS,
    TOLERANCES,
    check_overlap,
    check_planes,
    check_windows,
    pooled_type,
    pooling_of,
    reaches_beyond,
    windows,
)
from aclgrad.operators.routes import FLOAT16, Route
from aclgrad.operators.rules import first_problem
from aclgrad.operators.spec import (
    Arguments,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
)
from aclgrad.operators.tolerance import by_dtype, routed, summed
from aclgrad.products import Product

CONVOLVING: Final = (Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING)
"""The products that multiply in FLOAT16."""
_PARTLY_CONVOLVING: Final = (Product.ATLAS_A2, Product.ATLAS_A3)
_DTYPES: Final = floats()
_MAX_CONVOLVED_DIVISOR: Final = 255
_CONVOLVED_CHANNELS: Final = 65536


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    pooling = pooling_of(arguments)
    found = tuple(first_problem(check_planes(arguments), check_windows(pooling, "s"), check_overlap(pooling)))
    yield from found
    if found:
        return
    precision, dtype = arguments.int("cube_math_type"), arguments.inputs["self"].dtype.name
    if product in CONVOLVING:
        if precision == 3 or (precision == 0 and dtype == "float32"):
            remedy = f"send 1 to product {product}, which computes in float16"
            yield Violation("attributes[cube_math_type]", f"is {precision} for {dtype}", remedy)
        is_counted = arguments.attributes["count_include_pad"] and not arguments.int("divisor_override")
        if is_counted and reaches_beyond(pooling):
            problem = f"is true, and product {product} counts also what is beyond the padding"
            yield Violation("attributes[ceil_mode]", problem, "send false for ceil_mode or for count_include_pad")
    elif product in _PARTLY_CONVOLVING and dtype == "float32" and precision in (1, 3):
        problem = f"is {precision}, and product {product} averages most windows in full or in FLOAT16"
        yield Violation("attributes[cube_math_type]", problem, "send 0 or 2")
    if _is_multiplied_beyond_half(arguments, product, pooling):
        problem = f"is {arguments.int('divisor_override')}, by which the cells' number is more than FLOAT16 holds"
        yield Violation("attributes[divisor_override]", problem, "send a larger one, or divide the means yourself")


def _is_multiplied_beyond_half(arguments: Arguments, product: Product, pooling: Pooling) -> bool:
    """A mean of float16 is multiplied by the number of cells over the divisor, as a number of the same type."""
    divisor, cells = abs(arguments.int("divisor_override")), math.prod(pooling.kernel_size)
    is_mean = product is not Product.ASCEND_950 and _is_whole(pooling) and _is_half(arguments)
    return is_mean and divisor > 0 and cells / divisor > FLOAT16.largest


def _is_whole(pooling: Pooling) -> bool:
    return pooling.kernel_size == pooling.input_size and not any(pooling.padding)


def _is_half(arguments: Arguments) -> bool:
    dtype = arguments.inputs["self"].dtype.name
    return dtype == "float16" or (dtype == "float32" and arguments.int("cube_math_type") in (1, 2))


def _is_convolved_on_a2(arguments: Arguments, pooling: Pooling) -> bool:
    (height, width), (rows, columns) = pooling.input_size, pooling.kernel_size
    is_long = width // height >= 2 or height // width >= 2
    is_small = max(rows, columns) <= 255 and (rows * columns <= 255 or max(rows, columns) <= 20)
    has_divisor = abs(arguments.int("divisor_override")) <= _MAX_CONVOLVED_DIVISOR
    channels = arguments.inputs["self"].shape[-3]
    is_rounded_down = not arguments.attributes["ceil_mode"]
    return is_rounded_down and is_small and not is_long and has_divisor and channels < _CONVOLVED_CHANNELS


def _route(arguments: Arguments, product: Product) -> Route | None:
    """The sum, and the input of float32, or of float16 the weight or the division, are rounded."""
    pooling = pooling_of(arguments)
    if product is Product.ASCEND_950 or not _is_half(arguments) or not arguments.inputs["self"].element_count:
        return None
    if product in _PARTLY_CONVOLVING and not _is_whole(pooling) and not _is_convolved_on_a2(arguments, pooling):
        return None
    cells = math.prod(pooling.kernel_size)
    roundings = 2 if arguments.inputs["self"].dtype.name == "float16" else 3
    return Route(FLOAT16, roundings, cells, 1 / (abs(arguments.int("divisor_override")) or cells))


def _cells(arguments: Arguments) -> float:
    pooling = pooling_of(arguments)
    sizes = zip(pooling.kernel_size, pooling.input_size, strict=True)
    return float(math.prod(min(kernel, size) for kernel, size in sizes))


def _weight(arguments: Arguments) -> float:
    """Returns what a cell is multiplied by: of cells without padding, a window has a quarter at least."""
    divisor = arguments.int("divisor_override")
    return 1 / abs(divisor) if divisor else min(4 / math.prod(pooling_of(arguments).kernel_size), 1.0)


def _operations(arguments: Arguments) -> float:
    return pooled_type(arguments).element_count * _cells(arguments)


SPEC = OperatorSpec(
    name="avg_pool2d",
    symbol="aclnnAvgPool2d",
    summary="Averages each window of a plane.",
    formula=(
        "out[n, c, oh, ow] = the sum of self[n, c] over the window, divided by `divisor_override` or, if that is 0, by "
        "the number of the window's cells, padding included unless `count_include_pad` is false "
        "(PyTorch: aten::avg_pool2d)."
    ),
    inputs=(InputSpec("self", "The tensor, shape (N, C, H, W) or (C, H, W).", _DTYPES, RANKS),),
    attributes=(
        *windows("s"),
        CEIL_MODE,
        *AVERAGES,
    ),
    outputs=(OutputSpec("out", "The averages, shape (N, C, oH, oW) or (C, oH, oW), dtype of `self`.", pooled_type),),
    check=_check,
    tolerance=routed(summed(by_dtype(TOLERANCES), _cells, weight=_weight), _route),
    kind=OperatorKind.VALUE,
    operations=_operations,
)
