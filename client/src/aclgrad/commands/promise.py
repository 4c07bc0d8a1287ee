"""The highest rate of calls that may be promised: an open loop offers several rates, and p99 has to keep a limit."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aclgrad.commands.load import Measured, Send, closed_loop, open_loop
from aclgrad.errors import ServerUnreachableError

CALLERS: Final = 16
"""Of the closed loop, which finds about how many calls the server answers at most."""
ABOVE: Final = 1.1
"""The search begins between 0 and this multiple of that rate."""
HALVINGS: Final = 5
TRIES: Final = 2
"""Of a rate: a stall that other programs cause is no limit of the server."""
CONFIRMATIONS: Final = 4
LESS: Final = 0.7
"""Of a rate that was not confirmed, the next to try."""
CONFIRMED_FOR: Final = 2
"""The last rate is offered this many times as long as the others."""
BUSY: Final = 0.9
"""Cores of the generator, of one, from which its own work may be what limits the rate."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One offered rate, 0 for the closed loop, and what came of it."""

    offered: float
    measured: Measured
    generator_cores: float

    @property
    def p99_ms(self) -> float:
        """Infinite without an answer."""
        return self.measured.percentiles().get("p99", float("inf"))

    def keeps(self, limit_ms: float) -> bool:
        return not self.measured.failed and self.p99_ms <= limit_ms


@dataclass(slots=True)
class Search:
    """Looks for the highest rate whose p99 is at most `limit_ms`; `probes` are those so far, also after Ctrl-C."""

    name: str
    limit_ms: float
    seconds: float
    """How long each rate is offered."""
    probes: list[Probe] = field(default_factory=list)
    promised: Probe | None = None
    """What was confirmed; None if nothing was."""
    has_ended: bool = False
    """Whether the search came to its end, so that a rate that was not found cannot be promised."""
    now: Measured = field(default_factory=Measured)
    """What the present probe has seen so far."""

    @property
    def planned_s(self) -> float:
        """How long the search takes if no rate has to be tried again."""
        return (1 + HALVINGS + CONFIRMED_FOR) * self.seconds

    @property
    def generator_limits(self) -> bool:
        """Says whether the generator was nearly a core at work, so that the server may carry more."""
        return self.promised is not None and self.promised.generator_cores >= BUSY

    async def run(self, send: Send) -> None:
        """Halves the interval that has the highest rate, and offers the last good rate once more, for longer.

        Raises the error of the calls if the server goes away.
        """
        self.promised = await self._find(send)
        self.has_ended = True

    async def _find(self, send: Send) -> Probe | None:
        at_most = (await self._probe(send, 0.0, self.seconds)).measured.rate * ABOVE
        low, high = 0.0, at_most
        for _ in range(HALVINGS if at_most else 0):
            middle = (low + high) / 2
            for _ in range(TRIES):
                if (await self._probe(send, middle, self.seconds)).keeps(self.limit_ms):
                    low = middle
                    break
            else:
                high = middle
        for _ in range(CONFIRMATIONS if low else 0):
            probe = await self._probe(send, low, CONFIRMED_FOR * self.seconds)
            if probe.keeps(self.limit_ms):
                return probe
            low *= LESS
        return None

    async def _probe(self, send: Send, rate: float, seconds: float) -> Probe:
        self.now = Measured()
        begin, cpu_s = time.monotonic(), time.process_time()
        try:
            if rate:
                await open_loop(send, rate, seconds, self.now)
            else:
                await closed_loop(send, CALLERS, seconds, self.now)
        finally:
            cores = (time.process_time() - cpu_s) / (time.monotonic() - begin)
            self.probes.append(Probe(rate, self.now, cores))
        # A broken connection is no end, but no server can be reached if the client has waited for one.
        if (gone := self.now.gone) and (not self.now.answered or isinstance(gone, ServerUnreachableError)):
            raise gone
        return self.probes[-1]

    def about(self) -> Mapping[str, Any]:
        """Returns what JSON says of the search."""
        return {
            "calls_per_s": None if self.promised is None else self.promised.offered,
            "limit_ms": self.limit_ms,
            "generator_limits": self.generator_limits,
            "probes": [
                {
                    "offered_per_s": each.offered or None,
                    "answered_per_s": each.measured.rate,
                    "milliseconds": each.measured.percentiles(),
                    "errors": dict(each.measured.errors),
                    "generator_cores": each.generator_cores,
                    "kept": each.keeps(self.limit_ms),
                }
                for each in self.probes
            ],
        }
