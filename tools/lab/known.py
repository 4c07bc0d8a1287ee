"""Calls whose gradients are known. Clients of every release read them, so this module needs numpy alone."""

from collections.abc import Mapping
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
        arrays = reply if isinstance(reply, tuple) else (reply,)
        for array, truth, allowed in zip(arrays, self.truths, self.allowed, strict=True):
            if array.shape != truth.shape:
                raise WrongGradientError(f"{self.operator}: the shape is {array.shape} and not {truth.shape}")
            error = np.abs(array.astype(truth.dtype) - truth)
            # Not "any larger": a NaN is not near either.
            if not (error <= allowed).all():
                worst = np.argmax(error - allowed)
                off, most = error.flat[worst], np.broadcast_to(allowed, truth.shape).flat[worst]
                raise WrongGradientError(f"{self.operator}: off by {off:g} where {most:g} is allowed")


@dataclass(frozen=True, eq=False)
class KnownProgram:
    """A program as a raw client sends it, in one message or in several, and every output that comes back."""

    request: bytes
    messages: tuple[bytes, ...]
    truths: Mapping[tuple[int, str], Array]
    """By step and name. A step that is not here returns nothing."""
    step_count: int

    def compare(self, found: Mapping[tuple[int, str], Array]) -> None:
        """Raises WrongGradientError unless the outputs are there, each of them near to the definitions."""
        if found.keys() != self.truths.keys():
            raise WrongGradientError(f"a program returned {sorted(found)} and not {sorted(self.truths)}")
        for (step, name), array in found.items():
            truth = self.truths[step, name]
            if array.shape != truth.shape:
                raise WrongGradientError(f"step {step}: {name} has the shape {array.shape} and not {truth.shape}")
            error, allowed = np.abs(array.astype(np.float64) - truth).max(), CHAIN_SLACK * np.abs(truth).max()
            # Not "larger": a NaN is not near either.
            if not error <= allowed:
                raise WrongGradientError(f"step {step}: {name} is off by {error:g} where {allowed:g} is allowed")
