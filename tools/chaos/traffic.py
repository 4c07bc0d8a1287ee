"""What clients ask: inputs from seeded generators, and their gradients by the definition."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from aclgrad import reference
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product

Array = np.ndarray[Any, Any]
PRODUCT = Product.ATLAS_A2
DTYPE = "float32"
OPERATOR = "adaptive_avg_pool2d_backward"
SMALL, LARGE, HUGE = (1, 4, 32, 32), (2, 32, 64, 64), (5, 64, 96, 96)
"""Shapes of `self`: 16 KB, 1 MB, and 11.8 MB, which goes in chunks by itself."""
CASES = 8
BATCH = 8
SHARES = (("unary", 62), ("batch", 15), ("chunked", 22), ("huge", 1))
"""How often each method is called, of a hundred."""
DEADLINES_S = (2.0, 10.0, 30.0)
BRIDGE_DEADLINE_S = 30.0
"""The limit of a client, which has no other for the calls of a graph."""


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of a call, and the gradient by the definition."""

    operator: str
    inputs: dict[str, Array]
    attributes: dict[str, Any]
    truth: Array

    @classmethod
    def of_case(cls, typed: TypedCase) -> "Question":
        inputs = dict(typed.arrays())
        truth = reference.define(typed.spec.name, inputs, typed.attributes)
        return cls(typed.spec.name, inputs, dict(typed.case.attributes), truth)

    @classmethod
    @cache
    def of_shape(cls, shape: tuple[int, ...], seed: int) -> "Question":
        grad_output = np.random.default_rng(seed).standard_normal((*shape[:2], 7, 5)).astype(np.float32)
        inputs = {"grad_output": grad_output, "self": np.zeros(shape, np.float32)}
        return cls(OPERATOR, inputs, {}, reference.define(OPERATOR, inputs, {}))

    def is_answered_by(self, gradient: Array) -> bool:
        if gradient.shape != self.truth.shape:
            return False
        limit = OPERATORS[self.operator].tolerance(PRODUCT, DTYPE).limit(self.truth)
        return bool((np.abs(gradient - self.truth) <= limit).all())


@dataclass(frozen=True, slots=True)
class Asked:
    """One operation: its questions, how they are sent and within what time."""

    method: str
    questions: Sequence[Question]
    deadline_s: float


class Questions:
    """Draws operations, the same for the same seed."""

    def __init__(self, seed: int, methods: Sequence[str], *, by_bridge: bool = False) -> None:
        """With `by_bridge`, asks what a function of PyTorch has as its gradient, within the client's limit."""
        self._source = random.Random(seed)
        self._shares = [(name, share) for name, share in SHARES if name in methods]
        self._deadlines_s = (BRIDGE_DEADLINE_S,) if by_bridge else DEADLINES_S
        cases = [each for each in typed_cases(PRODUCT) if each.dtype == DTYPE and not by_bridge]
        small = [each for each in cases if max(map(np.prod, each.case.shapes.values())) <= 2**14]
        self._small = [Question.of_case(each) for each in self._source.sample(small, min(len(small), CASES))]
        self._small += [Question.of_shape(SMALL, seed + number) for number in range(CASES)]
        # Those are the same for all callers of a process: their definition takes long.
        shapes = {"chunked": LARGE, "huge": HUGE}
        self._of_shape = {name: Question.of_shape(shape, 0) for name, shape in shapes.items() if name in methods}

    def next(self) -> Asked:
        names, weights = zip(*self._shares, strict=True)
        method = self._source.choices(names, weights)[0]
        deadline_s = self._source.choice(self._deadlines_s)
        if method in self._of_shape:
            return Asked(method, [self._of_shape[method]], deadline_s)
        return Asked(method, self._source.choices(self._small, k=BATCH if method == "batch" else 1), deadline_s)
