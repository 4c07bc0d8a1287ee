"""A device without a device, and a call without gRPC."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, TypeVar

import grpc.aio

from aclgrad.errors import AclgradError
from aclgrad.products import Product
from aclgrad.sources import SHAPE_ONLY, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.calls.runner import Runner, Step
from aclgrad_server.devices.device import Content, OnEnd, Read, Write
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from aclgrad_server.devices.planning import Planner, planned_step
from aclgrad_server.services.shared_memory import SharedMemory, SharedTransfer

NO_LIMIT = 2**63 - 1
LATER = time.monotonic() + 3600
NO_TRANSFER = partial(SharedTransfer, SharedMemory(enabled=False, owners=()), None)

Result = TypeVar("Result")
Behaviour = Callable[[StepPlan], Awaitable[None]]


class Clock:
    """A time that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def answer(plan: StepPlan) -> None:
    """The behaviour of a device that answers at once."""


def raising(error: Exception) -> Behaviour:
    async def behaviour(plan: StepPlan) -> None:
        raise error

    return behaviour


class Gate:
    """A behaviour that ends only when it is opened."""

    def __init__(self) -> None:
        self.arrived = 0
        self.is_open = asyncio.Event()

    async def __call__(self, plan: StepPlan) -> None:
        self.arrived += 1
        await self.is_open.wait()


class Staging:
    """The tensors of one call, which are released together."""

    def __init__(self, sizes: Sequence[int], on_end: OnEnd) -> None:
        self.tensors = [FakeTensor(size_bytes, self) for size_bytes in sizes]
        self._open = set(self.tensors)
        self._on_end = on_end

    def close(self, tensor: "FakeTensor") -> None:
        self._open.discard(tensor)
        if not self._open:
            self._on_end()


class FakeTensor:
    """A staged tensor of 0x55, which stands for what was in the memory before."""

    def __init__(self, size_bytes: int, staging: "Staging") -> None:
        self.size_bytes = size_bytes
        self.content = bytearray(b"\x55" * size_bytes)
        self.staging = staging

    def close(self) -> None:
        self.staging.close(self)


class FakeDevice:
    """Implements `devices.device.Device`: notes the plans and answers 0x01 everywhere, after `behaviour`.

    As a real one, it goes on with what has begun if the caller is cancelled.
    """

    soc_name = "Ascend910B1"
    deterministic = True
    pool_limit_bytes = 2**40
    pinned_refusal = ""

    def __str__(self) -> str:
        return f"device {self.index} ({self.soc_name})"

    def __init__(self, index: int = 0, behaviour: Behaviour = answer) -> None:
        self.index = index
        self.behaviour = behaviour
        self.stage_error: AclgradError | None = None
        self.trim_error: AclgradError | None = None
        self.loss: AclgradError | None = None
        self.trims = 0
        self.release_error: AclgradError | None = None
        self.release_hangs = False
        self.releases = 0
        self.checks = 0
        self.sample_hangs = False
        self.samples = 0
        self.is_up = True
        self.executed: list[tuple[StepPlan, float]] = []
        self.contents: list[list[bytes | None]] = []
        self.staged: set[Staging] = set()
        self.workspace_of: Callable[[StepPlan], int] = lambda plan: 0
        self.submitted: list[str] = []
        """The pieces of work of calls in chunks, by the names of their methods."""
        self._work: set[asyncio.Task[Any]] = set()

    def close(self) -> None: ...

    async def execute(
        self,
        plan: StepPlan,
        contents: Sequence[Content],
        deadline: float,
        on_end: OnEnd,
        workspace_limit: int = sys.maxsize,
    ) -> bytes:
        reply: bytes = await self._until_done(self._execute(plan, contents, deadline, workspace_limit), on_end)
        return behind_prefixes(plan, reply)

    async def execute_on_each_thread(
        self, plan: StepPlan, contents: Sequence[Content], deadline: float
    ) -> Sequence[bytes]:
        return [await self.execute(plan, contents, deadline, lambda: None)]

    async def execute_into(
        self,
        plan: StepPlan,
        contents: Sequence[Content],
        targets: Sequence[Any],
        deadline: float,
        writes: Sequence[Write],
        reads: Sequence[Read],
        on_end: OnEnd,
        workspace_limit: int = sys.maxsize,
    ) -> list[bytes]:
        async def execute() -> list[bytes]:
            await self._write(writes)
            output = await self._execute(plan, contents, deadline, workspace_limit)
            start = 0
            for target in targets:
                target.content[:] = output[start : start + target.size_bytes]
                start += target.size_bytes
            return await self._read(reads)

        self.submitted.append("execute_into")
        messages: list[bytes] = await self._until_done(execute(), on_end)
        return messages

    async def execute_all(
        self,
        calls: Sequence[tuple[StepPlan, Sequence[Content], bytes]],
        deadline: float,
        streams: int,
        on_end: OnEnd,
        workspace_limits: Sequence[int] = (),
    ) -> tuple[bytes, list[AclgradError | None]]:
        async def execute() -> tuple[bytes, list[AclgradError | None]]:
            reply, errors = b"", []
            limits = workspace_limits or [sys.maxsize] * len(calls)
            for (plan, contents, prefix), limit in zip(calls, limits, strict=True):
                error = None
                output = b"\x55" * plan.output_bytes
                try:
                    output = await self._execute(plan, contents, deadline, limit)
                except AclgradError as raised:
                    error = raised
                reply += prefix + behind_prefixes(plan, output)
                errors.append(error)
            return reply, errors

        made: tuple[bytes, list[AclgradError | None]] = await self._until_done(execute(), on_end)
        return made

    async def stage(self, tensors: Sequence[tuple[int, bool]], deadline: float, on_end: OnEnd) -> list[FakeTensor]:
        self.submitted.append("stage")
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            on_end()
            raise
        if self.stage_error is not None:
            on_end()
            raise self.stage_error

        def end() -> None:
            self.staged.discard(staging)
            on_end()

        staging = Staging([size_bytes for size_bytes, _ in tensors], end)
        self.staged.add(staging)
        return staging.tensors

    async def write(self, writes: Sequence[Write], deadline: float) -> None:
        self.submitted.append("write")
        await self._write(writes)

    async def read(self, reads: Sequence[Read], deadline: float) -> list[bytes]:
        self.submitted.append("read")
        return await self._read(reads)

    async def join(self, pieces: Sequence[bytes | memoryview]) -> bytes:
        return b"".join(pieces)

    async def release_finished(self) -> None:
        self.releases += 1
        if self.release_error is not None:
            raise self.release_error
        if self.release_hangs:
            await asyncio.get_running_loop().create_future()

    async def trim(self) -> None:
        if self.trim_error is not None:
            raise self.trim_error
        self.trims += 1

    async def take_sample(self) -> None:
        self.samples += 1
        if self.sample_hangs:
            await asyncio.get_running_loop().create_future()

    def check(self) -> None:
        self.checks += 1
        if self.loss is not None:
            raise self.loss

    async def _write(self, writes: Sequence[Write]) -> None:
        for tensor, offset, data in writes:
            await asyncio.sleep(0)
            content = _content_of(tensor)
            assert 0 <= offset <= offset + len(data) <= len(content)
            content[offset : offset + len(data)] = data

    async def _read(self, reads: Sequence[Read]) -> list[bytes]:
        messages = []
        for tensor, offset, prefix, size_bytes in reads:
            await asyncio.sleep(0)
            content = _content_of(tensor)
            assert 0 <= offset <= offset + size_bytes <= len(content)
            messages.append(prefix + content[offset : offset + size_bytes])
        return messages

    async def _execute(
        self, plan: StepPlan, contents: Sequence[Content], deadline: float, workspace_limit: int
    ) -> bytes:
        if (needed := self.workspace_of(plan)) > workspace_limit:
            plan.workspace.size_bytes = max(plan.workspace.size_bytes, needed)
            raise WorkspaceShortageError(needed)
        self.executed.append((plan, deadline))
        self.contents.append([_bytes_of(each) for each in contents])
        await self.behaviour(plan)
        return (b"\0" if plan.is_empty else b"\x01") * plan.output_bytes

    async def _until_done(self, work: Coroutine[Any, Any, Any], on_end: OnEnd) -> Any:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(lambda _: on_end())
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)


def behind_prefixes(plan: StepPlan, data: bytes) -> bytes:
    """Returns the outputs of a reply: the data in pieces, each behind its prefix."""
    reply, start = b"", 0
    for each in plan.outputs:
        reply += each.reply_prefix + data[start : start + each.type.size_bytes]
        start += each.type.size_bytes
    return reply


def _content_of(tensor: object) -> bytearray:
    assert isinstance(tensor, FakeTensor)
    return tensor.content


def _bytes_of(content: object) -> bytes | None:
    if isinstance(content, FakeTensor):
        return bytes(content.content)
    assert content is None or isinstance(content, memoryview)
    return None if content is None else bytes(content)


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
    device: FakeDevice, running_limit: int = 16, max_message_bytes: int = 2**20, reply_limit: int = 2**40
) -> Runner:
    admission = Admission(running_limit, 16, 2**40, reply_limit=reply_limit)
    return Runner(device, admission, Planner(Product.ATLAS_A2, Limits(NO_LIMIT)), max_message_bytes)


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


def tensor(name: str, *shape: int, dtype: str = "float32", data: bytes | None = None) -> TensorView:
    return TensorView(
        name, TensorType(DTYPES[dtype], shape), SHAPE_ONLY if data is None else in_message(memoryview(data))
    )


def pooling_call(*self_shape: int) -> OperatorCall:
    """Returns a legal call whose output has this shape."""
    pooled = (*self_shape[:-2], 1, 1)
    grad_output = tensor("grad_output", *pooled)
    data = bytes(grad_output.type.size_bytes)
    inputs = (tensor("grad_output", *pooled, data=data), tensor("self", *self_shape))
    return OperatorCall("adaptive_avg_pool2d_backward", inputs, {})


def pooling_plan(*self_shape: int) -> StepPlan:
    return plan_call(pooling_call(*self_shape), Product.ATLAS_A2, Limits(NO_LIMIT))


def step_of(call: OperatorCall, prefix: bytes = b"", plan: StepPlan | None = None) -> Step:
    """Returns the step of a call whose bytes are its own, by default with a plan of its own."""
    plan = plan or plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT))
    return Step(planned_step(call, plan), (), prefix)


def pooling_step(*self_shape: int, prefix: bytes = b"") -> Step:
    return step_of(pooling_call(*self_shape), prefix)


async def claim_memory(
    admission: Admission, caller: str, size_bytes: int, is_slow: bool = False, is_small: bool = False
) -> Claim:
    """Claims memory as a program does that has nothing else."""
    room = admission.room(is_small)
    admission.callers.ask(caller)
    admission.check(caller, size_bytes, room=room)
    return await room.memory.take(caller, size_bytes, is_slow or is_small)
