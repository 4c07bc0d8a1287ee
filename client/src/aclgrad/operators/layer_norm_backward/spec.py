"""aclnnLayerNormBackward: the gradients of layer normalisation.

Devices compare normalized_shape with the last half of the input's sizes at most, so a weight of another size is read
out of bounds; all sizes are compared here.
"""

import math
from collections.abc import Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.rules import equal_sizes, first_problem, one_value_each, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType

_WITHOUT_BFLOAT16 = ("float32", "float16")
_DTYPES = {
    Product.ATLAS_TRAINING: _WITHOUT_BFLOAT16,
    Product.ATLAS_INFERENCE: _WITHOUT_BFLOAT16,
    **dict.fromkeys((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), (*_WITHOUT_BFLOAT16, "bfloat16")),
}
_RANKS: Final = tuple(range(1, 9))


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from _check_dtypes(arguments)
    yield from first_problem(_check_normalized_shape(arguments), _check_shapes(arguments))


def _check_dtypes(arguments: Arguments) -> Iterator[Violation]:
    """Saved values are at least as precise as the input, and the parameters may be."""
    yield from same_dtype(arguments, "grad_output", "input")
    dtype = arguments.inputs["input"].dtype
    legal = dict.fromkeys((DTYPES["float32"], dtype))
    for name in ("mean", "weight", "bias"):
        if name in arguments.inputs and arguments.inputs[name].dtype not in legal:
            problem = f"is {arguments.inputs[name].dtype}, but inputs[input] is {dtype}"
            yield Violation(f"inputs[{name}].data_type", problem, f"send it as {' or '.join(map(str, legal))}")
    yield from same_dtype(arguments, "mean", "rstd")


def _check_normalized_shape(arguments: Arguments) -> Iterator[Violation]:
    sizes, shape = arguments.ints("normalized_shape"), arguments.inputs["input"].shape
    if sizes != shape[-len(sizes) :]:
        problem = f"is {sizes}, but inputs[input] has the shape {shape}"
        yield Violation("attributes[normalized_shape]", problem, "send the last sizes of that shape")


def _check_shapes(arguments: Arguments) -> Iterator[Violation]:
    inputs, sizes = arguments.inputs, arguments.ints("normalized_shape")
    shape = inputs["input"].shape
    yield from equal_sizes("inputs[grad_output].shape", inputs["grad_output"].shape, "inputs[input].shape", shape)
    for name in ("weight", "bias"):
        if name in inputs:
            yield from equal_sizes(f"inputs[{name}].shape", inputs[name].shape, "normalized_shape", sizes)
    leading = shape[: -len(sizes)]
    yield from one_value_each(arguments, "mean", leading, f"rows {leading} of {sizes}", ones=len(sizes))
    yield from equal_sizes("inputs[rstd].shape", inputs["rstd"].shape, "inputs[mean].shape", inputs["mean"].shape)


def _parameter(arguments: Arguments) -> TensorType:
    return TensorType(DTYPES["float32"], arguments.ints("normalized_shape"))


def _rows(arguments: Arguments) -> float:
    shape = arguments.inputs["input"].shape
    return float(math.prod(shape[: len(shape) - len(arguments.ints("normalized_shape"))]))


def _batch_axes(arguments: Arguments) -> BatchAxes | None:
    rows = len(arguments.inputs["input"].shape) - len(arguments.ints("normalized_shape"))
    return BatchAxes(others=dict.fromkeys(("weight", "bias", "grad_weight", "grad_bias"))) if rows else None


SPEC = OperatorSpec(
    name="layer_norm_backward",
    symbol="aclnnLayerNormBackward",
    summary="Gives the gradients of layer normalisation: of the input, the weight and the bias.",
    formula=(
        "With x = (input - mean) * rstd and g = grad_output * weight: grad_input = rstd * (g - mean(g) - x * "
        "mean(g * x)), where mean() is over normalized_shape; grad_weight is the sum over all rows of grad_output * x, "
        "and grad_bias that of grad_output (PyTorch: aten::native_layer_norm_backward)."
    ),
    inputs=(
        InputSpec("grad_output", "The gradient of the normalised tensor, with its shape and dtype.", _DTYPES, _RANKS),
        InputSpec("input", "The tensor that was normalised, whose last sizes are normalized_shape.", _DTYPES, _RANKS),
        InputSpec(
            "mean",
            "The mean of each row, with the sizes of the input before normalized_shape, and 1 for any of the others, "
            "or as a list of the rows: float32, or the dtype of input.",
            _DTYPES,
            _RANKS,
        ),
        InputSpec("rstd", "1 / sqrt(variance + eps) of each row, with the shape and dtype of mean.", _DTYPES, _RANKS),
        InputSpec(
            "weight",
            "What the normalised rows were multiplied by, of normalized_shape: float32, or the dtype of input. "
            "Left out: ones.",
            _DTYPES,
            _RANKS,
            is_optional=True,
        ),
        InputSpec(
            "bias",
            "What was added, of normalized_shape; no gradient depends on it.",
            _DTYPES,
            _RANKS,
            unread_on=frozenset(_DTYPES),
            is_optional=True,
        ),
    ),
    attributes=(
        AttributeSpec(
            "normalized_shape",
            "The last sizes of input, over which each row was normalised.",
            AttributeKind.INTS,
            _RANKS,
            minimum=0,
        ),
    ),
    outputs=(
        OutputSpec(
            "grad_input",
            "The gradient of input, with its shape and dtype.",
            lambda arguments: arguments.inputs["input"],
            of="input",
            is_nullable=True,
        ),
        OutputSpec(
            "grad_weight",
            "The gradient of weight: float32, of normalized_shape.",
            _parameter,
            of="weight",
            is_nullable=True,
        ),
        OutputSpec(
            "grad_bias", "The gradient of bias: float32, of normalized_shape.", _parameter, of="bias", is_nullable=True
        ),
    ),
    check=_check,
    tolerance=summed(
        by_dtype(
            {
                "float32": Tolerance(relative=1e-4, absolute=1e-4),
                "float16": Tolerance(relative=1e-3, absolute=1e-3),
                "bfloat16": Tolerance(relative=8e-3, absolute=8e-3),
            }
        ),
        _rows,
        "grad_weight",
        "grad_bias",
    ),
    is_spatial=False,
    batch_axes=_batch_axes,
)
