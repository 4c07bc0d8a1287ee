"""What clients ask: inputs from seeded generators, and their gradients by the definition."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from aclgrad.operators.cases import typed_cases
from tools.benchmarks.sizes import OPERATOR
from tools.gradients import PRODUCT, Known

DTYPE = "float32"
SMALL, LARGE, HUGE = (1, 4, 32, 32), (2, 32, 64, 64), (5, 64, 96, 96)
"""Shapes of `self`: 16 KB, 1 MB, and 11.8 MB, which goes in chunks by itself."""
CASES = 8
BATCH = 8
SHARES = (("unary", 62), ("batch", 15), ("chunked", 22), ("huge", 1))
"""How often each method is called, of a hundred."""
DEADLINES_S = (2.0, 10.0, 30.0)
BRIDGE_DEADLINE_S = 30.0
"""The limit of a client, which has no other for the calls of a graph."""


@cache
def _of_shape(shape: tuple[int, ...], seed: int) -> Known:
    grad_output = np.random.default_rng(seed).standard_normal((*shape[:2], 7, 5)).astype(np.float32)
    return Known.of(OPERATOR, {"grad_output": grad_output, "self": np.zeros(shape, np.float32)}, {})


@dataclass(frozen=True, slots=True)
class Asked:
    """One operation: its questions, how they are sent and within what time."""

    method: str
    questions: Sequence[Known]
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
        self._small = [Known.of_case(each) for each in self._source.sample(small, min(len(small), CASES))]
        self._small += [_of_shape(SMALL, seed + number) for number in range(CASES)]
        # Those are the same for all callers of a process: their definition takes long.
        shapes = {"chunked": LARGE, "huge": HUGE}
        self._of_shape = {name: _of_shape(shape, 0) for name, shape in shapes.items() if name in methods}

    def next(self) -> Asked:
        names, weights = zip(*self._shares, strict=True)
        method = self._source.choices(names, weights)[0]
        deadline_s = self._source.choice(self._deadlines_s)
        if method in self._of_shape:
            return Asked(method, [self._of_shape[method]], deadline_s)
        return Asked(method, self._source.choices(self._small, k=BATCH if method == "batch" else 1), deadline_s)
