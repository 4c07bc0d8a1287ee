"""A call without gRPC, and a runner whose device is a fake."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc.aio

from aclgrad.products import Product
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.calls.outcome import Outcome
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.programs import ProgramPlanner
from tests.server.fake_device import FakeDevice
from tests.server.sent import NO_LIMIT

LATER = time.monotonic() + 3600

Result = TypeVar("Result")


class Clock:
    """A time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class FakeContext:
    """What a handler sees of a call: the messages of its client, and what it is answered."""

    def __init__(
        self,
        messages: Sequence[bytes] = (),
        peer: str = "ipv4:192.0.2.1:5",
        remaining_s: float | None = None,
        is_silent: bool = False,
    ) -> None:
        """A silent client sends no end after its messages."""
        self.messages = list(messages)
        self.replies: list[bytes] = []
        self.is_silent = is_silent
        self.read_count = 0
        self._peer = peer
        self._remaining_s = remaining_s
        self._callbacks: list[Callable[[Any], None]] = []

    def time_remaining(self) -> float | None:
        return self._remaining_s

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-request-id", "an-id"),)

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    async def send_initial_metadata(self, metadata: Sequence[tuple[str, str]]) -> None: ...

    async def read(self) -> bytes | object:
        await asyncio.sleep(0)
        self.read_count += 1
        if self.messages:
            return self.messages.pop(0)
        if self.is_silent:
            await asyncio.get_running_loop().create_future()
        return grpc.aio.EOF

    async def write(self, message: bytes) -> None:
        await asyncio.sleep(0)
        self.replies.append(message)

    def end(self) -> None:
        """The reply has left, or the client has gone."""
        while self._callbacks:
            self._callbacks.pop(0)(self)


def runner_of(
    device: FakeDevice,
    running_limit: int = 16,
    bytes_limit: int = 2**40,
    max_message_bytes: int = 2**20,
    max_call_bytes: int = 2**40,
    product: Product = Product.ATLAS_A2,
    **options: Any,
) -> Runner:
    """Options are those of admission."""
    admission = Admission(running_limit, 16, bytes_limit, **options)
    planner = Planner(product, Limits(NO_LIMIT))
    memory = SharedMemory(enabled=False, owners=())
    programs = ProgramPlanner(planner)
    given: Any = device
    return Runner(given, admission, planner, programs, memory, max_message_bytes, max_call_bytes)


async def run_program(runner: Runner, request: bytes, call: Call) -> Outcome:
    """Runs an ExecuteProgramRequest, and pauses nowhere."""
    program, payloads = await runner.programs.read(request, at_once)
    return await runner.run_program(call, program, payloads, at_once)


async def at_once() -> None: ...


def new_calls() -> OpenCalls:
    return OpenCalls(call_timeout_s=3600, client_timeout_s=3600)


def new_call(context: FakeContext | None = None, calls: OpenCalls | None = None) -> Call:
    """Returns a call of the running task."""
    return (calls or new_calls()).begin("Method", context or FakeContext())


async def begun(work: Awaitable[Result]) -> "asyncio.Task[Result]":
    """Returns a task that has come as far as it can."""
    task = asyncio.ensure_future(work)
    await settle()
    return task


async def settle() -> None:
    """Returns when everything that can run has run."""
    for _ in range(20):
        await asyncio.sleep(0)


async def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Returns as soon as the condition holds; other coroutines run meanwhile."""
    async with asyncio.timeout(timeout_s):
        while not condition():
            await asyncio.sleep(0.001)


async def claim_memory(
    admission: Admission, caller: str, size_bytes: int, is_slow: bool = False, is_small: bool = False
) -> Claim:
    """Claims memory as a program does that has nothing else."""
    room = admission.room(is_small)
    admission.callers.ask(caller)
    admission.check(caller, size_bytes, room=room)
    return await room.memory.take(caller, size_bytes, is_slow or is_small)
