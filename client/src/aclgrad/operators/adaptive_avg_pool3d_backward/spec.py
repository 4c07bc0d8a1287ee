"""aclnnAdaptiveAvgPool3dBackward: the gradient of adaptive average pooling over the last three dimensions.

Devices compute float64 for one window alone, and that with a factor in float32: about seven digits are right. Their
factor for float16 is a float16, so with more than 2**14 cells it loses digits. Atlas training and inference products
have a kernel for one window alone.
"""

from collections.abc import Iterator
from functools import partial

from aclgrad.errors import Violation
from aclgrad.operators.rules import (
    adaptive_operations,
    adaptive_weight,
    adaptive_windows,
    same_dtype,
    same_leading_sizes,
)
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, OutputSpec, Tolerance, same_on
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import TensorType

ONE_WINDOW = (Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING)
_DTYPES = {
    **same_on(ONE_WINDOW, ("float32", "float16", "float64")),
    **same_on((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16", "float64")),
}
_RANKS = (4, 5)


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "grad_output", "self")
    yield from same_leading_sizes(arguments, "grad_output", "self", trailing=3)
    input, grad_output = arguments.inputs["self"].shape, arguments.inputs["grad_output"].shape
    first = 1 if product is Product.ASCEND_950 else 0
    if 0 in input[first:]:
        yield Violation("inputs[self].shape", f"is {input}", f"send sizes above 0 from dimension {first} on")
    pooled = grad_output[-3:]
    if 0 in pooled:
        yield Violation("inputs[grad_output].shape", f"is {grad_output}", "send three last sizes above 0")
    elif pooled != (1, 1, 1) and product in ONE_WINDOW:
        remedy = f"send three last sizes of 1: product {product} has no other kernel"
        yield Violation("inputs[grad_output].shape", f"is {grad_output}", remedy)
    elif pooled != (1, 1, 1) and arguments.inputs["grad_output"].dtype.name == "float64":
        problem = f"is float64 for {pooled} windows, and devices take it for one window alone"
        yield Violation("inputs[grad_output].data_type", problem, "send float32")


def _out(arguments: Arguments) -> TensorType:
    return arguments.inputs["self"]


SPEC = OperatorSpec(
    name="adaptive_avg_pool3d_backward",
    symbol="aclnnAdaptiveAvgPool3dBackward",
    summary="Spreads the gradient of each pooled cell evenly over the cells that were averaged into it.",
    formula=(
        "Output cell (i, j, k) averaged the slices floor(i*D/oD) up to ceil((i+1)*D/oD), and the rows and columns "
        "alike; each of these cells receives grad_output[i, j, k] divided by their number, and overlapping windows add "
        "up (PyTorch: aten::_adaptive_avg_pool3d_backward)."
    ),
    inputs=(
        InputSpec(
            "grad_output",
            "The gradient of the pooled tensor, shape (N, C, oD, oH, oW) or (C, oD, oH, oW); float64 for one window.",
            _DTYPES,
            _RANKS,
        ),
        InputSpec(
            "self",
            "The tensor that was pooled, shape (N, C, D, H, W) or (C, D, H, W); only its shape and dtype matter.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset(_DTYPES),
        ),
    ),
    attributes=(),
    outputs=(OutputSpec("out", "The gradient of `self`, with its shape and dtype.", _out),),
    check=_check,
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-5, absolute=1e-6),
                "float16": Tolerance(relative=1e-3, absolute=1e-4),
                "bfloat16": Tolerance(relative=8e-3, absolute=1e-4),
                "float64": Tolerance(relative=1e-6, absolute=1e-9),
            }
        ),
        partial(adaptive_windows, axes=3),
        weight=partial(adaptive_weight, axes=3),
    ),
    operations=lambda arguments: adaptive_operations(arguments, axes=3),
)
