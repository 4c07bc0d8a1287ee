"""Calls whose gradient is known from its definition, and the comparison of replies with it; calls that are refused."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

import numpy as np

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.tolerances import tolerance_of
from tools.benchmarks.loads import gradient
from tools.benchmarks.sizes import OPERATOR, SIZES

PRODUCT: Final = Product.ATLAS_A2
"""What the host library is by default."""
Array = np.ndarray[Any, Any]


GRAD: Final = np.ones((1, 2, 2), np.float32)
BAD_REQUESTS: Final[Sequence[tuple[str, dict[str, Any], dict[str, Any]]]] = (
    ("nothing", {"grad_output": GRAD}, {}),
    (OPERATOR, {"grad_output": GRAD}, {}),
    (OPERATOR, {"grad_output": GRAD, "self": (4, 4)}, {}),
    (OPERATOR, {"grad_output": GRAD, "self": (1, 4, 4)}, {"stride": [2, 2]}),
    (OPERATOR, {"grad_output": GRAD.astype(np.int32), "self": (1, 4, 4)}, {}),
    (OPERATOR, {"grad_output": GRAD, "self": (1, 2**20, 2**20)}, {}),
)
"""Operator, inputs and attributes of calls that a server has to refuse."""


class WrongGradientError(Exception):
    """A reply that differs from its definition by more than the operator's tolerance."""


class UnexpectedReplyError(Exception):
    """A gradient in place of an error."""


@dataclass(frozen=True, eq=False)
class Known:
    """One call, the float64 gradients of its definition, and how far a reply may be from them."""

    operator: str
    inputs: Mapping[str, Any]
    attributes: Mapping[str, Any]
    truths: tuple[Array, ...]
    tolerance: Tolerance

    @classmethod
    def of(cls, operator: str, inputs: Mapping[str, Any], attributes: Mapping[str, Any]) -> Self:
        truths = arrays_of(reference.define(operator, inputs, attributes))
        return cls(operator, inputs, attributes, truths, tolerance_of(OPERATORS[operator], PRODUCT, inputs, attributes))

    @classmethod
    def of_case(cls, typed: TypedCase) -> Self:
        return cls.of(typed.spec.name, typed.arrays(), dict(typed.case.attributes))

    def compare(self, reply: Any) -> None:
        """Raises WrongGradientError unless each element is as near to the definition as the operator promises."""
        for array, truth in zip(arrays_of(reply), self.truths, strict=True):
            self._compare(array, truth)

    def _compare(self, array: Array, truth: Array) -> None:
        if array.shape != truth.shape:
            raise WrongGradientError(f"{self.operator}: the shape is {array.shape} and not {truth.shape}")
        error = np.abs(array.astype(truth.dtype) - truth)
        allowed = self.tolerance.limit(truth)
        # Not "any larger": a NaN is not near either.
        if not (error <= allowed).all():
            worst = np.argmax(error - allowed)
            off, most = error.flat[worst], allowed.flat[worst]
            raise WrongGradientError(f"{self.operator}: off by {off:g} where {most:g} is allowed")


@cache
def of_size(name: str) -> Known:
    """Returns the call of the benchmarks with a gradient of this size."""
    return Known.of(OPERATOR, {"grad_output": gradient(SIZES[name]), "self": SIZES[name].shape}, {})


@cache
def of_all_operators() -> list[Known]:
    """Returns every case of every operator with every dtype."""
    return [Known.of_case(typed) for typed in typed_cases(PRODUCT)]


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
