"""A device without a device."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from aclgrad.errors import AclgradError
from aclgrad_server.devices.device import Content, GroupWork, OnEnd, Place, Read, Write
from aclgrad_server.devices.faults import WorkspaceShortageError
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.devices.steps import first_failure, input_failed

Behaviour = Callable[[StepPlan], Awaitable[None]]
OLD = b"\x55"
"""What was in the memory before."""


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
    """The tensors that were asked for together: each is released by itself, and the last one ends it."""

    def __init__(self, tensors: Sequence[tuple[int, bool]], on_end: OnEnd) -> None:
        self.tensors = [FakeTensor(bytearray(OLD * size_bytes), self, on_host) for size_bytes, on_host in tensors]
        self.open = set(self.tensors)
        self._on_end = on_end

    def close(self, tensor: "FakeTensor") -> None:
        self.open.discard(tensor)
        if not self.open:
            self._on_end()


class FakeTensor:
    """A staged tensor."""

    def __init__(self, content: bytearray | memoryview, staging: "Staging", on_host: bool) -> None:
        self.content = memoryview(content)
        self.staging = staging
        self.on_host = on_host

    @property
    def size_bytes(self) -> int:
        return len(self.content)

    def first(self, size_bytes: int) -> "FakeTensor":
        assert size_bytes <= self.size_bytes
        return FakeTensor(self.content[:size_bytes], self.staging, self.on_host)

    def close(self) -> None:
        self.staging.close(self)


class FakeDevice:
    """Implements `devices.device.Device`: notes the plans and answers what `compute` says, after `behaviour`.

    As a real one, it goes on with what has begun if the caller is cancelled.
    """

    soc_name = "Ascend910B1"
    deterministic = True
    pool_limit_bytes = 2**40
    pinned_refusal = ""
    stops_at_faults = True

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
        self.groups: list[list[int]] = []
        """The numbers of the steps that ran together."""
        self.staged: set[Staging] = set()
        self.workspace_of: Callable[[StepPlan], int] = lambda plan: 0
        self.submitted: list[str] = []
        """The pieces of work of programs, by the names of their methods."""
        self._work: set[asyncio.Task[Any]] = set()

    def close(self) -> None: ...

    def compute(self, plan: StepPlan, contents: Sequence[bytes | None]) -> bytes:
        """Returns the outputs, one behind the other."""
        return (b"\0" if plan.is_empty else b"\x01") * plan.output_bytes

    async def execute(
        self,
        plan: StepPlan,
        contents: Sequence[Content],
        deadline: float,
        on_end: OnEnd,
        workspace_limit: int = sys.maxsize,
    ) -> bytes:
        given = [None if each is None else bytes(each) for each in contents]
        outputs = await self._until_done(self._execute(plan, given, deadline, workspace_limit), on_end)
        return b"".join(each.reply_prefix + data for each, data in zip(plan.outputs, outputs, strict=True))

    async def execute_on_each_thread(
        self, plan: StepPlan, contents: Sequence[Content], deadline: float
    ) -> Sequence[bytes]:
        return [await self.execute(plan, contents, deadline, lambda: None)]

    async def execute_group(
        self, work: GroupWork, deadline: float, streams: int, on_end: OnEnd, workspace_limits: Sequence[int]
    ) -> tuple[bytes, list[AclgradError | None]]:
        assert streams > 0
        assert len(work.steps) == len(work.plans) == len(work.numbers)
        self.submitted.append("execute_group")
        self.groups.append(list(work.numbers))
        made: tuple[bytes, list[AclgradError | None]] = await self._until_done(
            self._execute_group(work, deadline, workspace_limits), on_end
        )
        return made

    async def _execute_group(
        self, work: GroupWork, deadline: float, workspace_limits: Sequence[int]
    ) -> tuple[bytes, list[AclgradError | None]]:
        ran: dict[int, tuple[bytes, AclgradError | None]] = {}
        for (positions, arena_bytes), limit in zip(work.lanes, workspace_limits, strict=True):
            assert not ran.keys() & set(positions)
            ran |= await self._execute_lane(work, positions, bytearray(OLD * arena_bytes), deadline, limit)
        assert sorted(ran) == list(range(len(work.steps)))
        return b"".join(ran[each][0] for each in sorted(ran)), [ran[each][1] for each in sorted(ran)]

    async def _execute_lane(
        self, work: GroupWork, positions: Sequence[int], arena: bytearray, deadline: float, workspace_limit: int
    ) -> dict[int, tuple[bytes, AclgradError | None]]:
        """Returns each step's part of the reply, which has at the lane's end what is in its memory then."""
        assert sorted(positions) == list(positions)
        replied: dict[int, list[bytes | memoryview]] = {}
        errors: dict[int, AclgradError | None] = {}
        for position in positions:
            plan, (_, contents, prefix, sinks, needs, unseen) = work.plans[position], work.steps[position]
            assert all(each in errors for each in needs), "a step needs one of another lane, or a later one"
            check_placing(plan, contents, unseen)
            given = [None if each is None else bytes(_memory(each, arena)) for each in contents]
            errors[position], outputs = None, [OLD * each.type.size_bytes for each in plan.outputs]
            failed = next((each for each in needs if errors[each] is not None), None)
            try:
                if failed is not None:
                    raise input_failed(first_failure(work.numbers[failed], errors[failed] or AssertionError()))
                outputs = await self._execute(plan, given, deadline, workspace_limit)
            except AclgradError as error:
                errors[position] = error.with_traceback(None)
            replied[position] = [prefix]
            for output, data, (target, in_reply) in zip(
                plan.outputs, outputs, sinks or [(None, True)] * len(outputs), strict=True
            ):
                assert target is not None or in_reply
                memory = memoryview(data) if target is None else _memory(target, arena)
                if target is not None:
                    memory[:] = data
                if in_reply:
                    replied[position] += output.reply_prefix, memory
        return {each: (b"".join(replied[each]), errors[each]) for each in positions}

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

        staging = Staging(tensors, end)
        self.staged.add(staging)
        return staging.tensors

    async def write(self, writes: Sequence[Write], deadline: float) -> None:
        self.submitted.append("write")
        for tensor, offset, data in writes:
            await asyncio.sleep(0)
            content = _memory(tensor)
            assert 0 <= offset <= offset + len(data) <= len(content)
            content[offset : offset + len(data)] = data

    async def read(self, reads: Sequence[Read], deadline: float) -> list[bytes]:
        self.submitted.append("read")
        messages = []
        for tensor, offset, prefix, size_bytes in reads:
            await asyncio.sleep(0)
            content = _memory(tensor)
            assert 0 <= offset <= offset + size_bytes <= len(content)
            messages.append(prefix + content[offset : offset + size_bytes])
        return messages

    async def read_file(self, tensor: FakeTensor, file: int, offset: int, deadline: float) -> int:
        self.submitted.append("read_file")
        await asyncio.sleep(0)
        return os.preadv(file, [tensor.content], offset)

    async def write_file(self, tensor: FakeTensor, file: int, offset: int, deadline: float) -> None:
        self.submitted.append("write_file")
        await asyncio.sleep(0)
        os.pwrite(file, tensor.content, offset)

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

    async def _execute(
        self, plan: StepPlan, contents: list[bytes | None], deadline: float, workspace_limit: int
    ) -> list[bytes]:
        if (needed := self.workspace_of(plan)) > workspace_limit:
            plan.workspace.size_bytes = max(plan.workspace.size_bytes, needed)
            raise WorkspaceShortageError(needed)
        self.executed.append((plan, deadline))
        self.contents.append(contents)
        await self.behaviour(plan)
        made, outputs = self.compute(plan, contents), []
        for each in plan.outputs:
            outputs.append(made[: each.type.size_bytes])
            made = made[each.type.size_bytes :]
        assert not made
        return outputs

    async def _until_done(self, work: Coroutine[Any, Any, Any], on_end: OnEnd) -> Any:
        task = asyncio.ensure_future(work)
        self._work.add(task)
        task.add_done_callback(lambda _: on_end())
        task.add_done_callback(self._work.discard)
        return await asyncio.shield(task)


def check_placing(plan: StepPlan, contents: Sequence[Content], unseen: Sequence[int]) -> None:
    """What is checked is on the host, and what earlier steps guarantee is on the device."""
    for index, content in enumerate(contents):
        is_on_device = isinstance(content, Place) or (isinstance(content, FakeTensor) and not content.on_host)
        if plan.rules[index] is not None:
            assert is_on_device == (index in unseen), plan.inputs[index].name


def _memory(content: object, arena: bytearray | None = None) -> memoryview:
    if isinstance(content, Place):
        assert arena is not None
        assert content.offset + content.size_bytes <= len(arena)
        return memoryview(arena)[content.offset : content.offset + content.size_bytes]
    if isinstance(content, memoryview):
        return content
    assert isinstance(content, FakeTensor)
    return content.content
