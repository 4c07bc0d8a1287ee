"""Calls whose gradient is known from its definition, and the comparison of replies with it."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from tools.benchmarks.loads import gradient
from tools.benchmarks.sizes import OPERATOR, SIZES

PRODUCT: Final = Product.ATLAS_A2
"""What the host library is by default."""
Array = np.ndarray[Any, Any]


class WrongGradientError(Exception):
    """A reply that differs from its definition by more than the operator's tolerance."""


@dataclass(frozen=True, eq=False)
class Known:
    """One call, the float64 gradient of its definition, and how far a reply may be from it."""

    operator: str
    inputs: Mapping[str, Any]
    attributes: Mapping[str, Any]
    truth: Array
    tolerance: Tolerance

    def compare(self, reply: Array) -> None:
        """Raises WrongGradientError unless each element is as near to the definition as the operator promises."""
        if reply.shape != self.truth.shape:
            raise WrongGradientError(f"{self.operator}: the shape is {reply.shape} and not {self.truth.shape}")
        error = np.abs(reply.astype(self.truth.dtype) - self.truth)
        allowed = self.tolerance.absolute + self.tolerance.relative * np.abs(self.truth)
        # Not "any larger": a NaN is not near either.
        if not (error <= allowed).all():
            worst = np.argmax(error - allowed)
            off, most = error.flat[worst], allowed.flat[worst]
            raise WrongGradientError(f"{self.operator}: off by {off:g} where {most:g} is allowed")


@cache
def of_size(name: str) -> Known:
    """Returns the call of the benchmarks with a gradient of this size."""
    shape = SIZES[name].shape
    grad_output = gradient(SIZES[name])
    truth = reference.define(OPERATOR, {"grad_output": grad_output, "self": shape}, {})
    inputs = {"grad_output": grad_output, "self": shape}
    return Known(OPERATOR, inputs, {}, truth, OPERATORS[OPERATOR].tolerance(PRODUCT, "float32"))


@cache
def of_all_operators() -> list[Known]:
    """Returns every case of every operator with every dtype."""
    known = []
    for typed in typed_cases(PRODUCT):
        inputs, attributes = typed.arrays(), dict(typed.case.attributes)
        truth = reference.define(typed.spec.name, inputs, attributes)
        known.append(Known(typed.spec.name, inputs, attributes, truth, typed.spec.tolerance(PRODUCT, typed.dtype)))
    return known


class Sampler:
    """Compares a share of the replies with their definition, and counts them."""

    def __init__(self, share: float, seed: int) -> None:
        self._share = share
        self._random = random.Random(seed)
        self.compared = 0

    def wants_next(self) -> bool:
        return self._random.random() < self._share

    def compare(self, known: Known, reply: Array) -> None:
        self.compared += 1
        known.compare(reply)
