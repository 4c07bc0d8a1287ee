"""The rows of the operator table that are softmax and its logarithm, and their gradients."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import beside
from aclgrad.operators.rules import axis_in_range, equal_sizes, same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.products import Product

_DTYPES: Final = {
    **dict.fromkeys((Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE), ("float32", "float16")),
    **dict.fromkeys((Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950), ("float32", "float16", "bfloat16")),
}
_RANKS: Final = tuple(range(9))
_DIM: Final = AttributeSpec(
    "dim",
    "The axis along which it is computed; a negative one counts from the last.",
    AttributeKind.INT,
    minimum=-max(_RANKS),
    maximum=max(_RANKS) - 1,
)


def value_spec(name: str, symbol: str, function: str, formula: str) -> OperatorSpec:
    """Returns the row of the function."""
    is_logarithm = name.startswith("log")
    absolute = 1e-5 if is_logarithm else 1e-7
    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=f"Gives {function} along one axis.",
        formula=f"{formula}, where sum() is along dim (PyTorch: aten::{name}.int).",
        inputs=(InputSpec("self", "The tensor. Any shape.", _DTYPES, _RANKS),),
        attributes=(_DIM,),
        outputs=(
            OutputSpec("out", "The result, with the shape and dtype of self.", lambda given: given.inputs["self"]),
        ),
        check=lambda arguments, _: axis_in_range(arguments, "dim", "self"),
        # The powers of a row have one sum, whose error is a share of each quotient.
        tolerance=summed(
            by_dtype(
                {
                    "float32": Tolerance(relative=1e-5, absolute=absolute),
                    "float16": Tolerance(relative=1e-3, absolute=absolute),
                    "bfloat16": Tolerance(relative=8e-3, absolute=absolute),
                }
            ),
            lambda arguments: _row(arguments, "self"),
            weight=lambda arguments: _row(arguments, "self") ** (-0.5 if is_logarithm else -1.5),
        ),
        kind=OperatorKind.VALUE,
        is_spatial=False,
        batch_axes=beside("dim"),
    )


def softmax_spec(name: str, symbol: str, function: str, formula: str) -> OperatorSpec:
    """Returns the row of the gradient of the function, by the formula."""
    is_logarithm = name.startswith("log")
    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=f"Gives the gradient of {function} along one axis.",
        formula=f"{formula}, where sum() is along dim (PyTorch: aten::_{name}_data).",
        inputs=(
            InputSpec(
                "grad_output", "The gradient of the result, with the shape and dtype of output.", _DTYPES, _RANKS
            ),
            InputSpec("output", f"What {function} returned. Any shape.", _DTYPES, _RANKS),
        ),
        attributes=(
            replace(_DIM, summary="The axis along which it was computed; a negative one counts from the last."),
        ),
        outputs=(
            OutputSpec(
                "out",
                "The gradient of the input, with the shape and dtype of output.",
                lambda arguments: arguments.inputs["output"],
                of="input",
            ),
        ),
        check=_check,
        tolerance=summed(
            by_dtype(
                {
                    # The sum of a long row may be far greater than the gradient that it is a part of.
                    "float32": Tolerance(relative=1e-5, absolute=1e-5),
                    "float16": Tolerance(relative=1e-3, absolute=1e-5),
                    "bfloat16": Tolerance(relative=8e-3, absolute=1e-5),
                }
            ),
            _row,
            weight=lambda arguments: 1.0 if is_logarithm else _row(arguments) ** -0.5,
        ),
        is_spatial=False,
        batch_axes=beside("dim"),
    )


def _row(arguments: Arguments, input: str = "output") -> float:
    """Returns the terms of a sum; in a gradient, those of softmax are multiplied by numbers that add up to 1."""
    shape = arguments.inputs[input].shape
    return float(max(shape[arguments.int("dim")], 1)) if shape else 1.0


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "output", "grad_output")
    shapes = {name: arguments.inputs[name].shape for name in ("grad_output", "output")}
    yield from equal_sizes("inputs[grad_output].shape", shapes["grad_output"], "inputs[output].shape", shapes["output"])
    yield from axis_in_range(arguments, "dim", "output")


SPECS: Final = (
    # Some devices find the largest element of a row in float16.
    value_spec(
        "log_softmax",
        "aclnnLogSoftmax",
        "the logarithm of softmax",
        "out = self - log(sum(exp(self)))",
    ),
    softmax_spec(
        "log_softmax_backward",
        "aclnnLogSoftmaxBackward",
        "the logarithm of softmax",
        "out = grad_output - exp(output) * sum(grad_output)",
    ),
    value_spec("softmax", "aclnnSoftmax", "softmax", "out = exp(self) / sum(exp(self))"),
    # Phase 1 on a device does not look at the status of its own kernel, so all that the kernel needs is checked here.
    softmax_spec(
        "softmax_backward",
        "aclnnSoftmaxBackward",
        "softmax",
        "out = output * (grad_output - sum(grad_output * output))",
    ),
)
