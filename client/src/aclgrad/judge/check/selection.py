"""Which calls a check makes. They are the same at every run: samples have fixed seeds."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from aclgrad.judge.check.target import Target
from aclgrad.judge.findings.rows import Finding, Task
from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import PLANES, Arrays, samples_of

_PATTERN: Final = 0xCB
"""A byte that makes no zero, no NaN and no likely value in any dtype."""
_QUICK_BYTES: Final = 2**16
SIZES: Final = tuple(PLANES)[:-1]
"""The sizes of timed calls. The definitions would take minutes for the largest of all."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The sample calls of one server. `is_quick` leaves out large calls, and most of the dtypes after the first."""

    target: Target
    is_quick: bool

    def all(self) -> Iterator[TypedCase]:
        """Yields every case with every dtype; the quick form has small calls and two cases of a further dtype."""
        counts: dict[tuple[str, str], int] = {}
        for typed in self.target.cases():
            key = (typed.spec.name, typed.dtype)
            counts[key] = counts.get(key, 0) + 1
            if not self.is_quick or (_is_small(typed) and (_is_first_dtype(self.target, typed) or counts[key] <= 2)):
                yield typed

    def named(self) -> Iterator[tuple[str, TypedCase]]:
        """Yields every case under its name, and unless the form is quick a larger call of each operator."""
        yield from ((typed.case.name, typed) for typed in self.all())
        if not self.is_quick:
            yield from self.timed("6 MB")

    def of_first_dtype(self) -> Iterator[TypedCase]:
        """Yields the cases with the first dtype of their operator, and the first case with each other dtype."""
        seen: set[tuple[str, str]] = set()
        for typed in self.all():
            key = (typed.spec.name, typed.dtype)
            if _is_first_dtype(self.target, typed) or key not in seen:
                yield typed
            seen.add(key)

    def timed(self, *sizes: str) -> Iterator[tuple[str, TypedCase]]:
        """Yields the calls of these sizes, with the first dtype of their operator."""
        for spec in OPERATORS.values():
            for size in sizes:
                case = samples_of(spec.name).timed[size]
                for dtype in served_dtypes(spec, case, self.target.product)[:1]:
                    typed = TypedCase(spec, case, dtype)
                    if self.target.serves(typed):
                        yield size, typed


def task(target: Target, check: str, typed: TypedCase, judge: Callable[[], Finding], case: str = "") -> Task:
    """Returns the task about one call."""
    return Task(target.origin, check, typed.spec.name, typed.dtype, _shape(typed), case or typed.case.name, judge)


def free_inputs(target: Target, typed: TypedCase) -> list[str]:
    """Returns the names of the inputs that may have any values."""
    arguments = typed.arguments
    given = [input for input in typed.spec.inputs if input.name in arguments.inputs]
    return [input.name for input in given if input.values(arguments, target.product) is None]


def patterned(arrays: Arrays, names: list[str]) -> Arrays:
    """Returns the arrays, the named ones filled with a pattern of bytes."""
    filled = {name: arrays[name].copy() for name in names}
    for array in filled.values():
        array.reshape(-1).view("u1")[...] = _PATTERN
    return {**arrays, **filled}


def _shape(typed: TypedCase) -> tuple[int, ...]:
    return next(iter(typed.outputs.values())).shape


def _is_first_dtype(target: Target, typed: TypedCase) -> bool:
    return typed.dtype == typed.spec.inputs[0].dtypes[target.product][0]


def _is_small(typed: TypedCase) -> bool:
    return max(math.prod(shape) for shape in typed.case.shapes.values()) <= _QUICK_BYTES
