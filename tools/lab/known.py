"""Calls whose gradients are known. Clients of every release read them, so this module needs numpy alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

CHAIN_SLACK: Final = 2.0**-16
"""Of the largest value: more than the rounding of twenty linear steps, far less than a tensor in a wrong place."""


class WrongGradientError(Exception):
    """A reply that differs from its definition by more than the operator's tolerance."""


@dataclass(frozen=True, eq=False)
class Known:
    """One call, the float64 gradients of its definition, and how far each element of a reply may be from them."""

    operator: str
    inputs: Mapping[str, Any]
    attributes: Mapping[str, Any]
    truths: tuple[Array, ...]
    allowed: tuple[Array, ...]

    @property
    def sent_bytes(self) -> int:
        return sum(getattr(each, "nbytes", 0) for each in self.inputs.values())

    def compare(self, reply: Any) -> None:
        """Raises WrongGradientError unless each element is as near to the definition as the operator promises."""
        # There is None for what stays on the device.
        arrays = [each for each in (reply if isinstance(reply, tuple) else (reply,)) if each is not None]
        for array, truth, allowed in zip(arrays, self.truths, self.allowed, strict=True):
            if array.shape != truth.shape:
                raise WrongGradientError(f"{self.operator}: the shape is {array.shape} and not {truth.shape}")
            wide = array.astype(truth.dtype)
            error = np.abs(wide - truth)
            # Not "any larger": a NaN is not near either, but where the definition has it.
            if not ((error <= allowed) | (np.isnan(wide) & np.isnan(truth))).all():
                worst = np.argmax(error - allowed)
                off, most = error.flat[worst], np.broadcast_to(allowed, truth.shape).flat[worst]
                raise WrongGradientError(f"{self.operator}: off by {off:g} where {most:g} is allowed")


@dataclass(frozen=True, slots=True)
class KnownStep:
    """One step of a program; in place of an array, an input may have the number of the step whose output it is."""

    operator: str
    inputs: Mapping[str, Array | int]
    attributes: Mapping[str, Any]
    output: str
    """The only one that is computed."""


@dataclass(frozen=True, eq=False)
class KnownProgram:
    """A program, and every output that comes back."""

    steps: Sequence[KnownStep]
    truths: Mapping[int, Array]
    """By the number of the step. A step that is not here returns nothing."""

    def add_to(self, program: Any) -> list[Any]:
        """Adds the steps to a client's program, and returns the handles of what comes back."""
        made: list[Any] = []
        for step in self.steps:
            inputs = {name: made[each] if isinstance(each, int) else each for name, each in step.inputs.items()}
            added = program.execute(step.operator, inputs, step.attributes, outputs=(step.output,))
            made.append(getattr(added, step.output) if isinstance(added, tuple) else added)
        return [made[number] for number in self.truths]

    def compare(self, found: Sequence[Array]) -> None:
        """Raises WrongGradientError unless the outputs are there, each of them near to the definitions."""
        if len(found) != len(self.truths):
            raise WrongGradientError(f"a program returned {len(found)} outputs and not {len(self.truths)}")
        for array, (number, truth) in zip(found, self.truths.items(), strict=True):
            what = f"step {number}: {self.steps[number].output}"
            if array.shape != truth.shape:
                raise WrongGradientError(f"{what} has the shape {array.shape} and not {truth.shape}")
            error, allowed = np.abs(array.astype(np.float64) - truth).max(), CHAIN_SLACK * np.abs(truth).max()
            # Not "larger": a NaN is not near either.
            if not error <= allowed:
                raise WrongGradientError(f"{what} is off by {error:g} where {allowed:g} is allowed")
