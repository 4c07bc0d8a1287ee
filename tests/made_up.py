"""An operator that only tests have: unlike the family of pooling it has rank 1, is not linear and has empty last axes.

It is the gradient of softmax, so its weights have both signs. What tests assume of operators holds for it, too.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.samples import Case, Samples, case
from aclgrad.operators.spec import InputSpec, OperatorSpec, OutputSpec, Tolerance, same_on
from aclgrad.operators.tolerance import by_dtype
from aclgrad.products import Product

NAME = "made_up_backward"
STEEPNESS = 5
"""Differences need small steps."""
_DTYPES = same_on((Product.ATLAS_A2,), ("float32", "float16"))


def forward(grad_output: np.ndarray, input: np.ndarray) -> np.ndarray:
    raised = np.exp(STEEPNESS * (input - input.max(-1, keepdims=True, initial=-np.inf)))
    return raised / raised.sum(-1, keepdims=True)


def backward(grad_output: np.ndarray, input: np.ndarray) -> np.ndarray:
    weights, wide = forward(grad_output, input.astype(np.float64)), grad_output.astype(np.float64)
    return STEEPNESS * weights * (wide - (wide * weights).sum(-1, keepdims=True))


def _case(name: str, *shape: int) -> Case:
    return case(name, grad_output=shape, self=shape)


SAMPLES = Samples(
    cases=(_case("rows", 3, 7), _case("one_row", 5), _case("no_columns", 3, 0), _case("no_row", 0)),
    draw=lambda integer: _case("drawn", integer(0, 9)),
    timed={},
    pytorch=NotImplemented,
)


SPEC = OperatorSpec(
    name=NAME,
    symbol="aclnnMadeUpBackward",
    summary="Made up.",
    formula="y = softmax(5 * self), grad_input = 5 * y * (grad_output - sum(grad_output * y))",
    inputs=tuple(InputSpec(name, "Made up.", _DTYPES, (1, 2)) for name in ("grad_output", "self")),
    attributes=(),
    outputs=(OutputSpec("grad_input", "As self.", lambda arguments: arguments.inputs["self"]),),
    check=lambda arguments, product: iter(()),
    tolerance=by_dtype({"float32": Tolerance(1e-6, 1e-9), "float16": Tolerance(1e-3, 1e-7)}),
)
CASES = [TypedCase(SPEC, each, dtype) for each in SAMPLES.cases for dtype in ("float32", "float16")]


@contextmanager
def registered() -> Iterator[None]:
    """Makes the parts of the operator known by its name."""
    with pytest.MonkeyPatch.context() as patch:
        for part in ("definition", "samples"):
            patch.setitem(sys.modules, f"aclgrad.operators.{NAME}.{part}", sys.modules[__name__])
        patch.setitem(vars(reference)["_DEFINITIONS"], NAME, backward)
        yield
