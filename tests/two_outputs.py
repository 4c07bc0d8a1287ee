"""An operator with two outputs, which only tests have: the gradients of rows that are multiplied by a weight.

The weight may be left out, and a text says how often to multiply by it.
"""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from aclgrad.operators.catalogue import OPERATORS
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
from aclgrad.operators.tolerance import by_dtype
from aclgrad.products import Product
from aclgrad.tensors import TensorType

NAME = "scale_backward"
_FLOATS = same_on((Product.ATLAS_A2,), ("float32",))


def _row(arguments: Arguments) -> TensorType:
    self = arguments.inputs["self"]
    return replace(self, shape=self.shape[1:])


SPEC = OperatorSpec(
    name=NAME,
    symbol="aclnnScaleBackward",
    summary="Made up.",
    formula="y = self * weight, row by row",
    inputs=tuple(
        InputSpec(name, "Made up.", _FLOATS, (rank,), is_optional=name == "weight")
        for name, rank in (("grad", 2), ("self", 2), ("weight", 1))
    ),
    attributes=(AttributeSpec("mode", "Made up.", AttributeKind.TEXT, default="once", choices=("once", "twice")),),
    outputs=(
        OutputSpec("grad_input", "As self.", lambda arguments: arguments.inputs["self"]),
        OutputSpec("grad_weight", "A row of self.", _row, of="weight", is_nullable=True),
    ),
    check=lambda arguments, product: iter(()),
    tolerance=by_dtype({"float32": Tolerance(1e-6, 1e-6)}),
)


def backward(
    grad: np.ndarray, input: np.ndarray, weight: np.ndarray | None = None, mode: str = "once"
) -> tuple[np.ndarray, np.ndarray]:
    given = np.ones(input.shape[1:]) if weight is None else weight
    wide = [each.astype(np.float64) for each in (grad, input, given)]
    times = 1 if mode == "once" else 2
    return wide[0] * wide[2] ** times, (wide[0] * wide[1] * times * wide[2] ** (times - 1)).sum(0)


def register(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> None:
    """Adds the operator to the table that these modules look at."""
    for module in modules:
        monkeypatch.setattr(module, "OPERATORS", {**OPERATORS, NAME: SPEC})
