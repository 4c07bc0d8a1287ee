"""aclnnAdaptiveAvgPool2dBackward: the gradient of adaptive average pooling over the last two dimensions.

Atlas training and inference products multiply by a matrix for each axis, in the cube unit with cubeMathType 1, so in
FLOAT16 whatever the dtype is. One window over all of a plane is a product of the vector unit in the dtype.
"""

import math
from collections.abc import Iterator
from functools import partial

from aclgrad.errors import Violation
from aclgrad.operators.routes import FLOAT16, Route
from aclgrad.operators.rules import (
    adaptive_operations,
    adaptive_weight,
    adaptive_windows,
    same_dtype,
    same_leading_sizes,
)
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, OutputSpec, Tolerance, same_on
from aclgrad.operators.tolerance import by_dtype, routed, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES = {
    **same_on((Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING), ("float32", "float16")),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_RANKS = (3, 4)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    yield from same_leading_sizes(arguments, "grad_output", "self", trailing=2)


def _out(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


def _route(arguments: Arguments, product: Product) -> Route | None:
    """The product with the weight, both sums, and of float16 the weight itself are rounded."""
    grad_output, self = arguments.inputs["grad_output"], arguments.inputs["self"]
    is_empty = not grad_output.element_count or not self.element_count
    if product not in _BY_MATRICES or is_empty or grad_output.shape[-2:] == (1, 1):
        return None
    axes = tuple(zip(self.shape[-2:], grad_output.shape[-2:], strict=True))
    cells = math.prod(-(-size // count) + 1 for size, count in axes)
    windows = math.prod(-(-count // size) + 1 for size, count in axes)
    return Route(FLOAT16, 4 if grad_output.dtype.name == "float16" else 3, windows, 1 / cells)


_BY_MATRICES = (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE)

SPEC = OperatorSpec(
    name="adaptive_avg_pool2d_backward",
    symbol="aclnnAdaptiveAvgPool2dBackward",
    summary="Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.",
    formula=(
        "Output cell (i, j) averaged the rows floor(i*H/oH) up to ceil((i+1)*H/oH) and the columns alike; each of "
        "these cells receives grad_output[i, j] divided by their number, and overlapping windows add up "
        "(PyTorch: aten::_adaptive_avg_pool2d_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output",
            "The gradient of the pooled tensor, shape (N, C, oH, oW) or (C, oH, oW); any oH and oW.",
            _DTYPES,
            _RANKS,
        ),
        InputSpec(
            "self",
            "The tensor that was pooled, shape (N, C, H, W) or (C, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset({Product.ATLAS_A2, Product.ATLAS_A3}),
        ),
    ),
    attributes=(),
    outputs=(OutputSpec("out", "The gradient of `self`, with its shape and dtype.", _out),),
    check=_check,
    tolerance=routed(
        summed(
            by_dtype(
                {
                    "float32": Tolerance(relative=1e-5, absolute=1e-6),
                    "float16": Tolerance(relative=1e-3, absolute=1e-4),
                    "bfloat16": Tolerance(relative=8e-3, absolute=1e-4),
                }
            ),
            partial(adaptive_windows, axes=2),
            weight=partial(adaptive_weight, axes=2),
        ),
        _route,
    ),
    operations=lambda arguments: adaptive_operations(arguments, axes=2),
)
