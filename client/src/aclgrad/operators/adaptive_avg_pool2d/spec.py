"""aclnnAdaptiveAvgPool2d: adaptive average pooling over the last two dimensions.

Atlas training products multiply by a matrix for each axis, in the cube unit with cubeMathType 1, so in FLOAT16 whatever
the dtype is. One window over all of a plane is a mean in the dtype.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.families.pooling2d.spec import RANKS, TOLERANCES
from aclgrad.operators.routes import FLOAT16, Route
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
)
from aclgrad.operators.tolerance import by_dtype, routed, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats()
_LARGEST: Final = 2**31 - 1


def _axes(arguments: Arguments) -> tuple[tuple[int, int], ...]:
    """Returns the size of each axis before and after."""
    return tuple(zip(arguments.inputs["self"].shape[-2:], arguments.ints("output_size"), strict=True))


def _out(arguments: Arguments) -> TensorType:
    self = arguments.inputs["self"]
    return TensorType(self.dtype, (*self.shape[:-2], *arguments.ints("output_size")))


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    shape = arguments.inputs["self"].shape
    if 0 in shape[-2:]:
        yield Violation("inputs[self].shape", f"is {shape}", "send a height and width above 0")


def _cells(arguments: Arguments) -> float:
    return float(math.prod(min(-(-size // count) + 1, size) for size, count in _axes(arguments)))


def _weight(arguments: Arguments) -> float:
    return 1 / math.prod(max(size // count, 1) for size, count in _axes(arguments))


def _operations(arguments: Arguments) -> float:
    """Along an axis, the windows of `count` cells over `size` have size + count - gcd(size, count) cells together."""
    additions = math.prod(size + count - math.gcd(size, count) for size, count in _axes(arguments))
    return float(math.prod(arguments.inputs["self"].shape[:-2]) * additions)


def _route(arguments: Arguments, product: Product) -> Route | None:
    """The input or the weight, both sums, and of float16 the product with the weight, are rounded."""
    self = arguments.inputs["self"]
    is_mean = arguments.ints("output_size") == (1, 1)
    if product is not Product.ATLAS_TRAINING or is_mean or not self.element_count:
        return None
    cells = math.prod(-(-size // count) + 1 for size, count in _axes(arguments))
    return Route(FLOAT16, 4 if self.dtype.name == "float16" else 3, cells, 1 / cells)


SPEC = OperatorSpec(
    name="adaptive_avg_pool2d",
    symbol="aclnnAdaptiveAvgPool2d",
    summary="Averages the windows that divide a plane into so many rows and columns.",
    formula=(
        "Output cell (i, j) averages the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike "
        "(PyTorch: aten::_adaptive_avg_pool2d)."
    ),
    inputs=(InputSpec("self", "The tensor, shape (N, C, H, W) or (C, H, W).", _DTYPES, RANKS),),
    attributes=(
        AttributeSpec(
            "output_size",
            "Height and width of the result.",
            AttributeKind.INTS,
            lengths=(2,),
            minimum=1,
            maximum=_LARGEST,
        ),
    ),
    outputs=(OutputSpec("out", "The averages, shape (N, C, oH, oW) or (C, oH, oW), dtype of `self`.", _out),),
    check=_check,
    tolerance=routed(summed(by_dtype(TOLERANCES), _cells, weight=_weight), _route),
    kind=OperatorKind.VALUE,
    operations=_operations,
)
