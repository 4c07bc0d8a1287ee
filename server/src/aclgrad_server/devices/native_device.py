"""The devices of an ACL library. The only module that knows the native runtime."""

import asyncio
import logging
import math
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import aclgrad_native
from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Content, DeviceGroup, DeviceState, OnEnd, OnLost, StagedTensor
from aclgrad_server.devices.faults import StartError, error_of_fault, error_of_native
from aclgrad_server.devices.value_checks import check_of
from aclgrad_server.plan import OperatorPlan
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

EXECUTOR_LIMIT: Final = 64
"""Executors that each stream keeps."""
KERNEL_TIMEOUT: Final = 507014
"""ACL_ERROR_RT_AICORE_TIMEOUT: what a kernel that never ends is reported as."""
COPY_THREADS: Final = 2
"""Threads of each device that copy pieces of tensors."""
TURN_ERRORS: Final = 200
"""Errors of a batch that are translated, in about 2 ms, before others get their turn on the event loop."""

# What a large message costs most is the page faults of memory that is fresh each time, so freed memory stays mapped:
# no block is too large for the heap, and its end is not given back either; IdleTrim does that. One heap, because only
# the first one can hold blocks of more than 64 MiB; in all others these are mapped afresh whatever the threshold. Small
# blocks do not fight for it: each thread has a cache of them. Measured with glibc 2.36 on two cores: beside untouched
# defaults 1.4x the calls/s at 6.4 MB and 2x at 100 MB; with two heaps a third of that is lost at 100 MB; a threshold of
# 32 MiB, the most that glibc before 2.35 takes, gives most of the gain at 6.4 MB and none at 100 MB.
MMAP_THRESHOLD_BYTES: Final = 2**30
TRIM_THRESHOLD_BYTES: Final = 2**31 - 1
TOP_PAD_BYTES: Final = 64 * 2**20
ARENA_LIMIT: Final = 1

POOL_FIELDS: Final = (
    "allocated_bytes",
    "active_bytes",
    "largest_free_bytes",
    "workspace_bytes",
    "reserved_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "limit_bytes",
    "allocation_count",
    "hit_count",
    "retry_count",
    "out_of_memory_count",
)


def tune_allocator() -> None:
    """Sets how the C library keeps freed memory; to be called before other threads begin."""
    failures = aclgrad_native.tune_allocator(
        mmap_threshold_bytes=MMAP_THRESHOLD_BYTES,
        trim_threshold_bytes=TRIM_THRESHOLD_BYTES,
        top_pad_bytes=TOP_PAD_BYTES,
        arena_limit=ARENA_LIMIT,
    )
    for failure in failures:
        log.warning("large calls may be slower: %s", failure)


def trim_heap() -> bool:
    """Gives the C library's free memory back to the system; says whether there was any."""
    return aclgrad_native.trim_allocator()


def open_devices(settings: Settings, completions: Completions, on_lost: OnLost) -> DeviceGroup:
    """Opens the back end and its devices; raises StartError with the remedy if that fails. Blocks.

    `on_lost` is called, on the event loop, for every piece of work that ends because its device is lost.
    """
    config = None if settings.acl_config is None else str(settings.acl_config)
    try:
        files = aclgrad_native.library_files(settings.backend)
        library = aclgrad_native.open(settings.backend, config)
        count = library.device_count()
        indices = settings.device or range(count)
        unknown = [index for index in indices if not 0 <= index < count]
        if unknown or not count:
            remedy = "see --device and ASCEND_RT_VISIBLE_DEVICES"
            raise StartError(
                f"there is no device {', '.join(map(str, unknown)) or 0}: the runtime shows {count}; {remedy}"
            )
        devices = tuple(NativeDevice(library, index, settings, completions, on_lost) for index in indices)
    except aclgrad_native.LibraryError as error:
        remedy = "give --backend host, ascend (after CANN's set_env.sh), or the path of an ACL library"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    except aclgrad_native.AclError as error:
        remedy = "check the devices with npu-smi and the file of --acl-config"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    name = Path(files[0][0]).name
    log.info("opened %d device(s) of %s with %s", len(devices), devices[0].soc_name, name)
    return DeviceGroup(
        name, library.version(), devices, _takes_shapes(library, settings), _keeps_executors(library, settings)
    )


class NativeDevice:
    """A device of an ACL library, with its native threads: one for each stream, and some that copy."""

    def __init__(
        self,
        library: aclgrad_native.AclLibrary,
        index: int,
        settings: Settings,
        completions: Completions,
        on_lost: OnLost,
    ) -> None:
        self._device = aclgrad_native.Device(
            library,
            index,
            completions.native,
            pool_limit_bytes=settings.pool_bytes,
            stream_limit=settings.streams,
            copy_threads=COPY_THREADS,
            pool_high_water_bytes=settings.pool_keep_bytes,
            pool_pass_through=settings.pool_pass_through,
            executor_limit=EXECUTOR_LIMIT if _keeps_executors(library, settings) else 0,
            deterministic=settings.deterministic,
            hang_timeout_ms=round(settings.hang_timeout_s * 1000),
        )
        self._hang_timeout_s = settings.hang_timeout_s
        self._completions = completions
        self._on_lost = on_lost
        self._max_roi_work = settings.max_roi_work
        self.index = index
        self.soc_name = self._device.soc_name
        self.deterministic = self._device.is_deterministic
        self.pool_limit_bytes = self._device.pool_limit_bytes

    def prepare(self, plan: OperatorPlan) -> aclgrad_native.CallPlan:
        inputs = []
        for tensor, rule in zip(plan.inputs, plan.rules, strict=True):
            type = tensor.type if rule is None else rule.device_type(tensor.type)
            check, is_prefix = check_of(rule, tensor.type, self._max_roi_work)
            inputs.append((type.shape, type.dtype.acl, is_prefix, check))
        return aclgrad_native.CallPlan(
            plan.spec.symbol,
            inputs,
            plan.attributes,
            plan.output.shape,
            plan.output.dtype.acl,
            plan.output_bytes,
            plan.reply_prefix,
            plan.is_empty,
        )

    async def execute(self, plan: OperatorPlan, contents: Sequence[Content], deadline: float, on_end: OnEnd) -> bytes:
        work = self._run(self._device.submit, plan.prepared, contents, deadline=deadline, on_end=on_end)
        reply: bytes = await self._translated(work, plan)
        return reply

    async def execute_into(
        self, plan: OperatorPlan, contents: Sequence[Content], target: Any, deadline: float, on_end: OnEnd
    ) -> None:
        natives = [each.native if isinstance(each, NativeStagedTensor) else each for each in contents]
        submit = self._device.submit_into
        work = self._run(submit, plan.prepared, natives, target.native, deadline=deadline, on_end=on_end)
        await self._translated(work, plan)

    async def execute_all(
        self, calls: Sequence[tuple[OperatorPlan, Sequence[Content], bytes]], deadline: float, on_end: OnEnd
    ) -> tuple[bytes, list[AclgradError | None]]:
        natives = [(plan.prepared, contents, prefix) for plan, contents, prefix in calls]
        # Not beyond the deadline: a late call has its own status, and its neighbours' results go out with it.
        look = partial(self._look, math.inf)
        work = self._completions.run(self._device.submit_batch, natives, deadline, on_end=on_end, on_failure=look)
        reply, errors = await self._translated(work)
        translated: list[AclgradError | None] = []
        for number, ((plan, _, _), error) in enumerate(zip(calls, errors, strict=True), 1):
            translated.append(None if error is None else self._error_of(error, plan))
            if number % TURN_ERRORS == 0:
                await asyncio.sleep(0)
        return reply, translated

    async def stage(self, tensors: Sequence[tuple[int, bool]], deadline: float, on_end: OnEnd) -> list[StagedTensor]:
        released = self._completions.released(on_end)
        # The device returns the ticket of the release in any case, also if nothing was staged.
        work = self._completions.run(self._device.stage, released, tensors, deadline)
        return [NativeStagedTensor(each, self._submit) for each in await self._translated(work)]

    async def join(self, pieces: Sequence[bytes | memoryview]) -> bytes:
        joined: bytes = await self._submit(self._device.join, pieces)
        return joined

    async def release_finished(self) -> None:
        await self._submit(self._device.release_finished)

    async def trim(self) -> None:
        await self._submit(self._device.trim)

    async def state(self) -> DeviceState:
        free_bytes, total_bytes, pool, streams, leased = await self._submit(self._device.state)
        return DeviceState(
            streams, leased, {field: getattr(pool, field) for field in POOL_FIELDS}, free_bytes, total_bytes
        )

    def check(self) -> None:
        try:
            self._device.check_steps()
        except aclgrad_native.AclError as error:
            raise self._error_of(error) from error

    def _run(self, submit: Callable[..., Any], *arguments: Any, deadline: float, on_end: OnEnd) -> Awaitable[Any]:
        """Submits a call.

        Its thread waits for the kernel beyond the call's deadline, so the call keeps its stream, its memory and its
        place to run until the kernel has ended, and nobody gets them who would have to wait for it. A kernel that does
        not end within `--hang-timeout-s` after the deadline makes the device a lost one.
        """
        hung_at = deadline + self._hang_timeout_s
        look = partial(self._look, hung_at)
        return self._completions.run(submit, *arguments, hung_at, on_end=on_end, on_failure=look)

    def _look(self, hung_at: float, error: Exception) -> None:
        """Looks whether a failed call means a lost device, also if its client has gone long ago."""
        if not isinstance(error, aclgrad_native.AclError):
            return
        is_hung = error.fault == "timeout" and time.monotonic() >= hung_at
        ours = error_of_fault("device_lost", KERNEL_TIMEOUT) if is_hung else error_of_native(error)
        if isinstance(ours, DeviceLostError):
            self._on_lost(self, ours)

    async def _submit(self, submit: Callable[..., None], *arguments: Any, on_end: OnEnd | None = None) -> Any:
        return await self._translated(self._completions.run(submit, *arguments, on_end=on_end))

    async def _translated(self, work: Awaitable[Any], plan: OperatorPlan | None = None) -> Any:
        """Returns the result of native work, or raises our error for its exception."""
        try:
            return await work
        except (aclgrad_native.AclError, aclgrad_native.InvalidValueError) as error:
            raise self._error_of(error, plan) from error

    def _error_of(self, error: Exception, plan: OperatorPlan | None = None) -> AclgradError:
        ours = error_of_native(error, plan)
        if isinstance(ours, DeviceLostError):
            self._on_lost(self, ours)
        return ours


class NativeStagedTensor:
    """A tensor in the memory of a device, or of the host, that is filled or emptied piece by piece."""

    def __init__(self, native: aclgrad_native.StagedTensor, submit: Callable[..., Awaitable[Any]]) -> None:
        self.native = native
        self.size_bytes = native.size_bytes
        self._submit = submit

    async def write(self, offset: int, data: memoryview, deadline: float) -> None:
        await self._submit(self.native.write, offset, data, deadline)

    async def read(self, offset: int, size_bytes: int, prefix: bytes, deadline: float) -> bytes:
        message: bytes = await self._submit(self.native.read, offset, size_bytes, prefix, deadline)
        return message

    async def read_file(self, file: int, offset: int, deadline: float) -> int:
        count: int = await self._with_file(self.native.read_file, file, offset, deadline)
        return count

    async def write_file(self, file: int, offset: int, deadline: float) -> None:
        await self._with_file(self.native.write_file, file, offset, deadline)

    async def finish(self, deadline: float) -> None:
        await self._submit(self.native.finish, deadline)

    def close(self) -> None:
        self.native.close()

    async def _with_file(self, submit: Callable[..., None], file: int, offset: int, deadline: float) -> Any:
        # A caller that is cancelled closes its file while a thread still uses it; the number may then be that of
        # another client's memory.
        own = os.dup(file)
        return await self._submit(submit, own, offset, deadline, on_end=partial(os.close, own))


def _keeps_executors(library: aclgrad_native.AclLibrary, settings: Settings) -> bool:
    """By default executors are kept where the library is known to run them again rightly."""
    return library.is_host if settings.executor_cache == "auto" else settings.executor_cache == "on"


def _takes_shapes(library: aclgrad_native.AclLibrary, settings: Settings) -> bool | None:
    """By default the host library does, for it is known to read nothing else; of a card it depends on the product."""
    if settings.shape_only == "auto":
        return True if library.is_host else None
    return settings.shape_only == "on"
