"""Which traces are chosen, as OTEL_TRACES_SAMPLER says. Every call asks, so the answer is a comparison.

The rules are those of OpenTelemetry's SDK: services with the same ratio choose the same traces.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple, Self

from opentelemetry.trace import TraceFlags

from aclgrad_server.exits import StartError

_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_ARGUMENT: Final = f"{_SAMPLER}_ARG"
_PARENT_BASED: Final = "parentbased_"
_KINDS: Final = ("always_on", "always_off", "traceidratio")
_LOW_BITS: Final = 2**64


class Sampling(NamedTuple):
    """Chooses traces whose lower 64 bits are below the bound; with `follows_parent`, a client decides for its own."""

    follows_parent: bool
    bound: int

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Returns what the variables say; raises StartError for a value that they do not take."""
        name = environment.get(_SAMPLER, "").strip().lower() or "parentbased_always_on"
        kind = name.removeprefix(_PARENT_BASED)
        if kind not in _KINDS:
            known = ", ".join((*_KINDS, *(_PARENT_BASED + each for each in _KINDS)))
            raise StartError(f"--tracing: {_SAMPLER} is {name!r}; give one of {known}")
        share = {"always_on": 1.0, "always_off": 0.0}.get(kind)
        if share is None:
            share = _share(environment.get(_ARGUMENT, "").strip() or "1")
        return cls(name != kind, round(share * _LOW_BITS))

    def chooses(self, trace_id: int, flags: int | None) -> bool:
        """Takes the flags of the client's trace context, or None if the call has none."""
        if flags is not None and self.follows_parent:
            return bool(flags & TraceFlags.SAMPLED)
        return trace_id % _LOW_BITS < self.bound


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise StartError(f"--tracing: {_ARGUMENT} is {text!r}; give a number from 0 to 1")
    return share
