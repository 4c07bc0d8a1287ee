"""Simulations of tens of lines, which assume less than the formulas do. Each is decided by its seed."""

import heapq
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tools.scale.figures import PERIOD_S, RETRY_BURST, RETRY_SHARE

_WARM_SHARE: Final = 0.1
_STEPS, _STEP_CALLS = 1000, 200_000
"""Steps that are drawn, and more of those of few calls."""


def mean_wait(servers: int, load: float, calls: int, seed: int, *, is_steady: bool = False) -> float:
    """Returns the mean wait before servers that share a queue; service times are exponential or `is_steady`."""
    source = random.Random(seed)
    free_at = [0.0] * servers
    now = total = 0.0
    for number in range(calls):
        now += source.expovariate(servers * load)
        begin = max(now, heapq.heappop(free_at))
        heapq.heappush(free_at, begin + (1.0 if is_steady else source.expovariate(1.0)))
        if number >= _WARM_SHARE * calls:
            total += begin - now
    return total / (calls * (1 - _WARM_SHARE))


@dataclass(frozen=True, slots=True)
class Fleet:
    """The latencies of calls to many hosts, and which of the calls went to the slow one first."""

    latencies: Sequence[float]
    met_slow: Sequence[bool]

    def steps(self, calls: int, seed: int) -> tuple[float, float]:
        """Returns of steps of so many calls the share that met the slow host, and the p99 of their longest call."""
        source = random.Random(seed)
        count = max(_STEPS, _STEP_CALLS // calls)
        picked = [source.choices(range(len(self.latencies)), k=calls) for _ in range(count)]
        met = sum(any(self.met_slow[each] for each in step) for step in picked) / count
        longest = sorted(max(self.latencies[each] for each in step) for step in picked)
        return met, longest[int(0.99 * count)]


def fleet(hosts: int, slowness: float, load: float, calls: int, queue: int, seed: int, *, weighted: bool) -> Fleet:
    """Plays calls to hosts that each serve one at a time; the last one is slow.

    Many clients choose, so a host's calls come at random. A host with a full queue refuses, and the call goes to
    another one at once. With weights, a host gets calls in proportion to what it can do.
    """
    source = random.Random(seed)
    speeds = [1.0] * (hosts - 1) + [1 / slowness]
    # As many calls as without weights: 60 % of what hosts of full speed carry.
    rate = hosts * load
    chances = speeds if weighted else [1.0] * hosts
    total = sum(chances)
    ends: list[deque[float]] = [deque() for _ in range(hosts)]
    latencies, met_slow = [], []
    now = 0.0
    for number in range(calls):
        now += source.expovariate(rate)
        first = None
        while True:
            # All hosts but the last have the same chance.
            chosen = hosts - 1 if source.random() < chances[-1] / total else source.randrange(hosts - 1)
            first = chosen if first is None else first
            waiting = ends[chosen]
            while waiting and waiting[0] <= now:
                waiting.popleft()
            if len(waiting) <= queue:
                break
        begin = waiting[-1] if waiting else now
        waiting.append(begin + source.expovariate(speeds[chosen]))
        if number >= _WARM_SHARE * calls:
            latencies.append(waiting[-1] - now)
            met_slow.append(first == hosts - 1)
    return Fleet(latencies, met_slow)


def seconds_until_refused(rate: int, failing: float, limit_s: float, seed: int) -> float | None:
    """Returns how long after a fault a client's budget is spent, or None if it is not within the limit.

    It called for a minute before; from then on this share of the first attempts needs a retry.
    """
    source = random.Random(seed)
    calls: deque[float] = deque()
    retries: deque[float] = deque()
    now = -float(PERIOD_S)
    while now < limit_s:
        now += source.expovariate(rate)
        calls.append(now)
        while calls[0] < now - PERIOD_S:
            calls.popleft()
        while retries and retries[0] < now - PERIOD_S:
            retries.popleft()
        if now >= 0 and source.random() < failing:
            if len(retries) + 1 > RETRY_BURST + RETRY_SHARE * len(calls):
                return now
            retries.append(now)
    return None
