"""What clients do in the long run: calls of every operator, size and way, bad ones, late ones, and some they take back.

Each kind is a coroutine for either client: with a Client, nothing in it ever waits for an event loop.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import numpy as np

import aclgrad
from tools.calling import AnyClient, maybe_await
from tools.gradients import (
    BAD_REQUESTS,
    GRAD,
    Known,
    UnexpectedReplyError,
    WrongGradientError,
    of_all_operators,
    of_size,
)

TIMEOUT_S: Final = 60.0
SMALL_MESSAGE_BYTES: Final = 256 * 1024
"""Of a client that sends calls of 1 MB in chunks."""
BATCH: Final = 16
PAUSE_S: Final = 0.005
"""Between two calls of a caller: the load is steady, and leaves the machine room for a start."""

SHARES: Final[Mapping[str, float]] = {
    "small": 0.45,
    "operator": 0.20,
    "large": 0.05,
    "batch": 0.04,
    "chunked": 0.04,
    "shared": 0.06,
    "bad": 0.06,
    "late": 0.04,
    "taken_back": 0.04,
    "newcomer": 0.02,
}


class Clients:
    """The clients of a process: one as it is by default, and one for small messages, and one for shared memory."""

    def __init__(self, kind: type[aclgrad.Client] | type[aclgrad.AsyncClient], target: str, local_target: str) -> None:
        self._make: Callable[[], AnyClient] = lambda: kind(target, timeout_s=TIMEOUT_S)
        self.plain = self._make()
        self.small_messages: AnyClient = kind(target, timeout_s=TIMEOUT_S, max_message_bytes=SMALL_MESSAGE_BYTES)
        self.shared: AnyClient = kind(local_target, timeout_s=TIMEOUT_S, shared_memory=True)

    def newcomer(self) -> AnyClient:
        return self._make()

    async def close(self) -> None:
        for each in (self.plain, self.small_messages, self.shared):
            await maybe_await(each.close())


class Caller:
    """Makes calls one after the other and counts how they ended."""

    def __init__(self, clients: Clients, seed: int) -> None:
        self.clients = clients
        self.generator = np.random.default_rng(seed)
        self.ends: Counter[str] = Counter()
        self.failures: list[str] = []
        """Calls that ended as none may."""
        self.latencies_s: list[float] = []
        """Of small calls."""

    async def call_until(self, end: float, pause: Callable[[float], Any]) -> None:
        """Makes calls until that time of `time.monotonic`; `pause` waits for so many seconds."""
        while time.monotonic() < end:
            kind = str(self.generator.choice(list(SHARES), p=list(SHARES.values())))
            begin = time.monotonic()
            try:
                self.ends[f"{kind}: {await _KINDS[kind](self)}"] += 1
            except (aclgrad.AclgradError, WrongGradientError, UnexpectedReplyError) as error:
                self.failures.append(f"{kind}: {type(error).__name__}: {error}")
            if kind == "small":
                self.latencies_s.append(time.monotonic() - begin)
            await maybe_await(pause(PAUSE_S))

    async def check(self, client: AnyClient, known: Known) -> str:
        gradient = await maybe_await(client.execute(known.operator, known.inputs, known.attributes))
        known.compare(gradient)
        return "answered"

    def any_operator(self) -> Known:
        every = of_all_operators()
        return every[self.generator.integers(len(every))]


async def _small(caller: Caller) -> str:
    return await caller.check(caller.clients.plain, of_size("16 KB"))


async def _operator(caller: Caller) -> str:
    return await caller.check(caller.clients.plain, caller.any_operator())


async def _large(caller: Caller) -> str:
    """A size of its own each time, so that neither pool nor heap sees the same twice."""
    side = int(caller.generator.integers(200, 800))
    gradient = await maybe_await(caller.clients.plain.adaptive_avg_pool2d_backward(GRAD, (1, side, side)))
    if gradient.shape != (1, side, side) or not np.isclose(gradient.sum(dtype=np.float64), GRAD.sum(), rtol=1e-3):
        raise WrongGradientError(f"shape {gradient.shape}, sum {gradient.sum()}")
    return "answered"


async def _batch(caller: Caller) -> str:
    known = of_size("16 KB")
    calls = caller.clients.plain.batch()
    for _ in range(BATCH):
        calls.adaptive_avg_pool2d_backward(known.inputs["grad_output"], known.inputs["self"])
    for gradient in await maybe_await(calls.run()):
        known.compare(gradient)
    return "answered"


async def _chunked(caller: Caller) -> str:
    return await caller.check(caller.clients.small_messages, of_size("1 MB"))


async def _shared(caller: Caller) -> str:
    return await caller.check(caller.clients.shared, of_size("1 MB"))


async def _bad(caller: Caller) -> str:
    name, inputs, attributes = BAD_REQUESTS[caller.generator.integers(len(BAD_REQUESTS))]
    try:
        await maybe_await(caller.clients.plain.execute(name, inputs, attributes))
    except aclgrad.RequestError as error:
        return error.reason
    raise UnexpectedReplyError(f"{name} was answered")


async def _late(caller: Caller) -> str:
    limit_s = float(caller.generator.uniform(1e-4, 3e-3))
    try:
        await maybe_await(caller.clients.plain.adaptive_avg_pool2d_backward(GRAD, (1, 300, 300), timeout_s=limit_s))
    # A worker that is being restarted may be what the call met before its time was over.
    except (aclgrad.DeadlinePassedError, aclgrad.RetryableError):
        return "late"
    return "in time"


async def _taken_back(caller: Caller) -> str:
    client, known = caller.clients.plain, caller.any_operator()
    if isinstance(client, aclgrad.Client):
        # A thread cannot take a call back.
        return await _late(caller)
    after_s = float(caller.generator.uniform(0.0, 3e-3))
    task = asyncio.ensure_future(client.execute(known.operator, known.inputs, known.attributes))
    await asyncio.sleep(after_s)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return "cancelled"
    return "in time"


async def _newcomer(caller: Caller) -> str:
    client = caller.clients.newcomer()
    try:
        return await caller.check(client, of_size("16 KB"))
    finally:
        await maybe_await(client.close())


_KINDS: Final[Mapping[str, Callable[[Caller], Awaitable[str]]]] = {
    "small": _small,
    "operator": _operator,
    "large": _large,
    "batch": _batch,
    "chunked": _chunked,
    "shared": _shared,
    "bad": _bad,
    "late": _late,
    "taken_back": _taken_back,
    "newcomer": _newcomer,
}
