"""The device of an ACL library: it takes calls, several at once, and never blocks the event loop.

A deadline is a time of `time.monotonic`. If a caller is cancelled, work that has not begun is dropped and other work
continues. In any case `on_end` is called once, on the event loop, when the work's memory is free.
"""

import asyncio
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import aclgrad_native as native
from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.devices.completions import Completions, Ticket
from aclgrad_server.devices.faults import error_of_fault, error_of_native
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.devices.steps import input_failed
from aclgrad_server.limits import PINNED_BYTES, SMALL_BYTES, SMALL_POOL_BYTES
from aclgrad_server.settings import Settings, is_on

EXECUTOR_LIMIT: Final = 64  # executors that each stream keeps
KERNEL_TIMEOUT: Final = 507014  # ACL_ERROR_RT_AICORE_TIMEOUT, reported for a kernel that never ends
COPY_THREADS: Final = 2  # threads of the device that copy pieces of tensors
COPY_STREAMS: Final = 32  # streams for these copies, abandoned ones included
OTHER_STREAMS: Final = COPY_STREAMS + 1  # streams of a process besides those of its calls; one is the default stream
STREAMS_PER_SLOT: Final = 2  # small calls have as many slots of their own
TURN_ERRORS: Final = 200
"""Errors of a group that are translated at once (about 2 ms) before the event loop does other work."""

StagedTensor = native.StagedTensor
Write = tuple[StagedTensor, int, memoryview]
"""A tensor, an offset in it, and the bytes to write there."""
Read = tuple[StagedTensor, int, bytes, int]
"""A tensor, an offset in it, the prefix of a message, and the number of bytes to copy behind it."""
OnEnd = Callable[[], None]
Content = Any  # the bytes of one input: a buffer, a `StagedTensor`, or None if the device gets none
Place = native.Place
"""An offset and a size in the memory of a lane."""
Target = StagedTensor | Place | None
GroupedStep = tuple[
    native.CallTemplate,
    Sequence[Content],
    bytes,
    Sequence[tuple[Target, bool]] | None,
    Sequence[int],
    Sequence[int],
]
"""One step of a group: plan, inputs, prefix of its outputs in the reply, the target of each wanted output and whether
the reply has it (None: all go only to the reply), the earlier steps of the group that it needs, and the inputs whose
values need no check because an earlier step guarantees them."""


@dataclass(slots=True)
class GroupWork:
    """Steps that run together, with their plans and their numbers in the program."""

    steps: list[GroupedStep] = field(default_factory=list)
    plans: list[StepPlan] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    lanes: list[tuple[list[int], int]] = field(default_factory=list)
    """The positions of the steps of each lane, which share a stream, and the bytes of its memory."""


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """A device's memory, streams and work at one moment."""

    time_s: float  # of `time.monotonic`
    free_bytes: int
    total_bytes: int
    pool: native.PoolStatistics
    streams: int
    leased_streams: int
    abandoned_calls: int
    executors: native.ExecutorStatistics
    pinned_bytes: int


class Device:
    """The only device that the library sees; `index` is its number for users.

    `on_lost` is called for all work that ends because the device is lost. Methods raise an AclgradError.
    """

    def __init__(
        self,
        library: native.AclLibrary,
        index: int,
        settings: Settings,
        completions: Completions,
        on_lost: "OnLost",
        process_count: int = 1,
    ) -> None:
        """Takes the number of processes that share the device and its memory."""
        # Small calls run beside those that fill the pool.
        small_bytes = SMALL_POOL_BYTES + settings.streams * SMALL_BYTES
        streams = STREAMS_PER_SLOT * settings.streams
        self._device = native.Device(
            library,
            0,
            completions.native,
            pool_limit_bytes=None if settings.pool_bytes is None else settings.pool_bytes + small_bytes,
            stream_limit=streams,
            copy_threads=COPY_THREADS,
            copy_stream_limit=COPY_STREAMS,
            # By default executors are kept if the library is known to rerun them correctly.
            executor_limit=EXECUTOR_LIMIT if is_on(settings.executor_cache, library.is_host) else 0,
            deterministic=settings.deterministic,
            hang_timeout_ms=round(settings.hang_timeout_s * 1000),
            process_count=process_count,
            pinned_limit_bytes=PINNED_BYTES,
        )
        # The host library keeps no state of a call in its thread.
        self._cold_threads = 1 if library.is_host else streams
        self._hang_timeout_s = settings.hang_timeout_s
        self._completions = completions
        self._on_lost = on_lost
        self.index = index
        self.is_up = True
        """False once the device is lost or unfit."""
        self.sample: DeviceSample | None = None
        """The latest sample, which ages if the driver hangs."""
        self._sampling: asyncio.Task[DeviceSample] | None = None
        self.oldest_step_s = 0.0
        """The age of the longest pending request to the driver; of a kernel, the time since its call's deadline."""
        self.soc_name = self._device.soc_name
        self.deterministic = self._device.is_deterministic
        self.pool_limit_bytes = max(0, self._device.pool_limit_bytes - small_bytes)
        """The bytes that large calls may claim."""

    @property
    def pinned_refusal(self) -> str:
        """Why there is no pinned memory, so that copies are slower; empty if there is, or nobody asked for it."""
        return self._device.pinned_refusal

    def __str__(self) -> str:
        return f"device {self.index} ({self.soc_name})"

    async def execute(
        self,
        plan: StepPlan,
        contents: Sequence[Content],
        deadline: float,
        on_end: OnEnd,
        workspace_limit: int = sys.maxsize,
    ) -> bytes:
        """Returns the plan's ExecuteOperatorResponse; like all that run operators, raises WorkspaceShortageError."""
        if plan.native.is_short:
            done = self._run_short(plan, contents, deadline, on_end, workspace_limit)
            if done is not None:
                return done
        hung_at = self._hung_at(plan, deadline)
        work = plan.native, contents, deadline, hung_at, _released(on_end), None, workspace_limit
        reply: bytes = await self._run(self._device.submit, *work, plan=plan, hung_at=hung_at)
        return reply

    async def execute_on_each_thread(
        self, plan: StepPlan, contents: Sequence[Content], deadline: float
    ) -> Sequence[bytes]:
        """Runs the call on every thread that caches executors, and returns their responses."""
        hung_at = self._hung_at(plan, deadline)
        work = plan.native, contents, deadline, hung_at, None
        threads = range(self._cold_threads)
        runs = (self._run(self._device.submit, *work, each, plan=plan, hung_at=hung_at) for each in threads)
        replies: list[bytes] = await asyncio.gather(*runs)
        return replies

    def _hung_at(self, plan: StepPlan, deadline: float) -> float:
        """Returns when a running kernel counts as hung, its estimated time included."""
        return deadline + max(self._hang_timeout_s, plan.seconds)

    def _run_short(
        self, plan: StepPlan, contents: Sequence[Content], deadline: float, on_end: OnEnd, workspace_limit: int
    ) -> bytes | None:
        """Runs a call on the event loop, which is faster than waking a thread; None if it would have to wait."""
        released = _released(on_end)
        try:
            reply = self._device.run_short(plan.native, contents, deadline, released, workspace_limit)
        except (native.AclError, native.InvalidValueError, native.WorkspaceError) as error:
            self._look(self._hung_at(plan, deadline), error)
            raise error_of_native(error, plan) from error
        if reply is not None:
            on_end()
        return reply

    @property
    def stops_at_faults(self) -> bool:
        """Whether a fault stops everything behind it on its stream."""
        return self._device.stops_at_faults

    async def execute_group(
        self, work: GroupWork, deadline: float, streams: int, on_end: OnEnd, workspace_limits: Sequence[int]
    ) -> tuple[bytes, list[AclgradError | None]]:
        """Runs a group on at most this many streams; returns its reply, and the error of each step that failed."""
        pairs = zip(work.lanes, workspace_limits, strict=True)
        lanes = [(positions, arena_bytes, limit) for (positions, arena_bytes), limit in pairs]
        # Waits until the deadline: a late step gets its own status, and the other results are sent.
        hung_at = self._hung_at(work.plans[0], deadline) if len(work.plans) == 1 else deadline
        given = work.steps, lanes, deadline
        submit = partial(
            self._device.submit_group, wait_until=hung_at, released_ticket=_released(on_end), streams=streams
        )
        reply, errors, _ = await self._run(submit, *given)
        translated: list[AclgradError | None] = []
        for number, (plan, error) in enumerate(zip(work.plans, errors, strict=True), 1):
            if isinstance(error, native.InputFailedError):
                translated.append(input_failed(work.numbers[error.step]))
            else:
                translated.append(None if error is None else self._error_of(error, plan, hung_at))
            if number % TURN_ERRORS == 0:
                await asyncio.sleep(0)
        return reply, translated

    async def stage(self, tensors: Sequence[tuple[int, bool]], deadline: float, on_end: OnEnd) -> list[StagedTensor]:
        """Returns a tensor of each size, on the host if its flag is set; `on_end` is called when all are closed."""
        staged: list[StagedTensor] = await self._run(self._device.stage, _released(on_end), tensors, deadline)
        return staged

    async def read_file(self, tensor: StagedTensor, file: int, offset: int, deadline: float) -> int:
        """Fills a tensor from an open file and returns the number of bytes read; also raises OSError."""
        count: int = await self._with_file(tensor.read_file, file, offset, deadline)
        return count

    async def write_file(self, tensor: StagedTensor, file: int, offset: int, deadline: float) -> None:
        """Writes a tensor into an open file; also raises OSError."""
        await self._with_file(tensor.write_file, file, offset, deadline)

    async def _with_file(self, submit: Callable[..., None], file: int, offset: int, deadline: float) -> Any:
        # A cancelled caller closes its file while a thread still uses it; the descriptor may then be another client's.
        own = os.dup(file)
        return await self._run(submit, own, offset, deadline, on_end=partial(os.close, own))

    async def write(self, writes: Sequence[Write], deadline: float) -> None:
        await self._run(self._device.write, writes, deadline)

    async def read(self, reads: Sequence[Read], deadline: float) -> list[bytes]:
        """Returns a message for each: its prefix, and a copy of the tensor's bytes."""
        messages: list[bytes] = await self._run(self._device.read, reads, deadline)
        return messages

    async def join(self, pieces: Sequence[bytes | memoryview]) -> bytes:
        joined: bytes = await self._run(self._device.join, pieces)
        return joined

    async def release_finished(self) -> None:
        """Reclaims memory of abandoned calls once the device is done with it."""
        await self._run(self._device.release_finished)

    async def trim(self) -> None:
        await self._run(self._device.trim)

    async def take_sample(self) -> DeviceSample:
        """Asks the driver, and keeps the answer as `sample`. One request at a time: the driver may hang."""
        while self._sampling is not None and not self._sampling.done():
            await asyncio.wait([self._sampling])
        self._sampling = asyncio.ensure_future(self._sample())
        # If all waiters were cancelled, nobody takes this error; the next sample meets it again.
        self._sampling.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(self._sampling)

    async def _sample(self) -> DeviceSample:
        state = await self._run(self._device.state)
        self.sample = DeviceSample(time.monotonic(), *state)
        return self.sample

    def check(self) -> None:
        """Raises DeviceLostError if the device is lost or one of its steps hangs; never blocks."""
        try:
            self.oldest_step_s = self._device.oldest_step_s
            self._device.check_steps()
        except native.AclError as error:
            raise self._error_of(error) from error

    async def stop_sampling(self) -> None:
        """Gives up a sample that the driver has not answered: it would keep `close` from closing the device."""
        sampling, self._sampling = self._sampling, None
        if sampling is not None:
            sampling.cancel()
            await asyncio.wait([sampling])

    def close(self) -> None:
        """Closes the device, which must have no work and no pending sample; blocks."""
        # The device also closes the library, because a device runtime must end before the process does.
        del self._device

    async def _run(
        self,
        submit: Callable[..., Any],
        *arguments: Any,
        plan: StepPlan | None = None,
        hung_at: float = math.inf,
        on_end: OnEnd | None = None,
    ) -> Any:
        """Returns the result of native work, or raises our error. A kernel that still runs at `hung_at` is a loss."""
        try:
            return await self._completions.run(
                submit, *arguments, on_end=on_end, on_failure=partial(self._look, hung_at)
            )
        except (native.AclError, native.InvalidValueError, native.WorkspaceError) as error:
            raise error_of_native(error, plan) from error

    def _look(self, hung_at: float, error: Exception) -> None:
        """Checks whether the failure means a lost device, even if the client has gone."""
        if isinstance(error, native.AclError):
            is_hung = error.fault == "timeout" and time.monotonic() >= hung_at
            ours = error_of_fault("device_lost", KERNEL_TIMEOUT) if is_hung else error_of_native(error)
            ours.__cause__ = error
            self._lose_by(ours)

    def _error_of(self, error: Exception, plan: StepPlan | None = None, hung_at: float = math.inf) -> AclgradError:
        ours = error_of_native(error, plan)
        self._look(hung_at, error)
        return ours

    def _lose_by(self, error: AclgradError) -> None:
        if isinstance(error, DeviceLostError):
            self.is_up = False
            self._on_lost(self, error)


def _released(on_end: OnEnd) -> Ticket:
    """A ticket that the device returns, also after a failure, when it holds nothing of the work any more."""
    return lambda _: on_end()


OnLost = Callable[[Device, DeviceLostError], None]
