"""The load of a benchmark: sequential calls of several callers, or calls that are due at a rate."""

import asyncio
import itertools
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from aclgrad._client.reports import CallReport
from aclgrad.errors import AclgradError
from aclgrad.judge.findings.rows import GONE

MAX_WAITING: Final = 1_000
"""The most calls of an open loop that wait for their answer; a further call fails at once."""
NOT_SENT: Final = "not sent: too many calls wait"
TOO_LATE: Final = "not sent: the rate is higher than this machine can send"
PERCENTILES: Final = (50.0, 90.0, 99.0, 99.9)

Send = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Measured:
    """What a run has seen so far; times are in milliseconds."""

    milliseconds: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    retries: int = 0
    retry_budget: int | None = None
    """What the client has left; None before its first call has ended."""
    gone: AclgradError | None = None
    """The error of the latest call if it says that the server is gone; None after an answer."""

    def note(self, report: CallReport) -> None:
        """Counts what the client did by itself."""
        self.retries += report.retries
        self.retry_budget = report.retry_budget

    @property
    def answered(self) -> int:
        return len(self.milliseconds)

    @property
    def failed(self) -> int:
        return self.errors.total()

    @property
    def rate(self) -> float:
        """Answered calls a second."""
        return self.answered / self.seconds if self.seconds else 0.0

    def percentiles(self) -> dict[str, float]:
        """Returns p50, p90, p99, p99.9 and the maximum; nothing if no call was answered."""
        if not self.milliseconds:
            return {}
        values = np.percentile(self.milliseconds, PERCENTILES, method="higher")
        found = {f"p{percent:g}": float(value) for percent, value in zip(PERCENTILES, values, strict=True)}
        return {**found, "max": max(self.milliseconds)}


async def closed_loop(send: Send, callers: int, seconds: float, measured: Measured) -> None:
    """Runs several callers; each makes its next call when its last one has ended."""
    now = asyncio.get_running_loop().time
    start = now()

    async def caller() -> None:
        while (begin := now()) < start + seconds:
            await _make(send, begin, measured)
            measured.seconds = now() - start

    try:
        await _all(caller() for _ in range(callers))
    finally:
        # After an interrupt, with the time in which no call ended.
        measured.seconds = now() - start


async def open_loop(send: Send, rate: float, seconds: float, measured: Measured) -> None:
    """Makes calls at a rate, whether earlier ones have ended or not; none begins after the time, however many were due.

    Times count from the moment when the call was due, so a stalled server gets no better figures.
    """
    now = asyncio.get_running_loop().time
    start = now()
    waiting: set[asyncio.Task[None]] = set()
    try:
        for number in itertools.count():
            due = start + number / rate
            if due >= start + seconds:
                break
            if now() >= start + seconds:
                measured.errors[TOO_LATE] += math.ceil(rate * seconds) - number
                break
            # Also if the call is already late, so that the event loop can handle answers.
            await asyncio.sleep(max(0.0, due - now()))
            measured.seconds = now() - start
            if len(waiting) >= MAX_WAITING:
                measured.errors[NOT_SENT] += 1
                continue
            task = asyncio.ensure_future(_make(send, due, measured))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
        await asyncio.gather(*waiting)
        # The last call may end long before the next one would be due.
        await asyncio.sleep(max(0.0, start + seconds - now()))
    finally:
        measured.seconds = now() - start
        await _cancel(waiting)


async def _make(send: Send, due: float, measured: Measured) -> None:
    try:
        await send()
    except AclgradError as error:
        measured.errors[error.reason or type(error).__name__] += 1
        measured.gone = error if isinstance(error, GONE) else None
    else:
        measured.gone = None
        measured.milliseconds.append(1e3 * (asyncio.get_running_loop().time() - due))


async def _all(callers: Iterable[Coroutine[None, None, None]]) -> None:
    tasks = {asyncio.ensure_future(caller) for caller in callers}
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel(tasks)


async def _cancel(tasks: set[asyncio.Task[None]]) -> None:
    """Ends what an interrupt left."""
    for task in tasks:
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks, return_exceptions=True)
