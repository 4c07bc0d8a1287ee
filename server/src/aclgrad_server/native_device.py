"""The devices of an ACL library. The only module that knows the native runtime."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import aclgrad_native
from aclgrad.errors import AclgradError, DeviceMemoryError, InvalidFieldError, LimitExceededError, Violation
from aclgrad.masks import MaskLayout
from aclgrad.operators.values import ArgmaxRule, BoxRule, IndexRule, ValueRule
from aclgrad.tensors import TensorType
from aclgrad_server.device import DeviceCall, DeviceGroup, DeviceInput, DeviceState, ReplyPart, StagedTensor
from aclgrad_server.faults import RETRY_AFTER_MEMORY_S, StartError, error_of_fault
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

EXECUTOR_LIMIT: Final = 64
"""Executors that each stream keeps."""

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


def open_devices(settings: Settings) -> DeviceGroup:
    """Opens the back end and its devices; raises StartError with the remedy where that cannot be done."""
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
        devices = tuple(NativeDevice(library, index, settings) for index in indices)
    except aclgrad_native.LibraryError as error:
        remedy = "give --backend host, ascend (after CANN's set_env.sh), or the path of an ACL library"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    except aclgrad_native.AclError as error:
        remedy = "check the devices with npu-smi and the file of --acl-config"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    name = Path(files[0][0]).name
    log.info("opened %d device(s) of %s with %s", len(devices), devices[0].soc_name, name)
    return DeviceGroup(name, library.version(), devices, _takes_shapes(library, settings))


class NativeDevice:
    """A device of an ACL library."""

    def __init__(self, library: aclgrad_native.AclLibrary, index: int, settings: Settings) -> None:
        self._device = aclgrad_native.Device(
            library,
            index,
            pool_limit_bytes=settings.pool_bytes,
            stream_limit=settings.streams,
            pool_high_water_bytes=settings.pool_keep_bytes,
            pool_pass_through=settings.pool_pass_through,
            executor_limit=EXECUTOR_LIMIT if _keeps_executors(library, settings) else 0,
            deterministic=settings.deterministic,
            hang_timeout_ms=round(settings.hang_timeout_s * 1000),
        )
        self._max_roi_work = settings.max_roi_work
        self.index = index
        self.soc_name = self._device.soc_name
        self.deterministic = self._device.is_deterministic

    def new_reply(self, sections: Sequence[tuple[bytes, int]]) -> aclgrad_native.ReplyBuffer:
        return aclgrad_native.ReplyBuffer(sections)

    def prepare(self, field: str, type: TensorType, data: memoryview, rule: ValueRule) -> DeviceInput:
        try:
            if isinstance(rule, ArgmaxRule):
                return _mask(type, data, rule)
            if isinstance(rule, IndexRule):
                aclgrad_native.check_indices(data, rule.bound)
            else:
                self._check_work(field, _count_work(data, rule))
        except aclgrad_native.InvalidValueError as error:
            raise InvalidFieldError.of(
                Violation(f"{field}.data", str(error), "send a value within what is told there")
            ) from error
        return DeviceInput(type, data)

    def execute(self, call: DeviceCall, timeout_s: float) -> None:
        try:
            self._device.execute(_native_call(call), _milliseconds(timeout_s))
        except aclgrad_native.AclError as error:
            raise _as_ours(error, call.plan.size_bytes) from error

    def execute_all(self, calls: Sequence[DeviceCall], timeout_s: float) -> list[AclgradError | None]:
        errors = self._device.execute_all([_native_call(call) for call in calls], _milliseconds(timeout_s))
        return [
            None if error is None else _as_ours(error, call.plan.size_bytes)
            for call, error in zip(calls, errors, strict=True)
        ]

    def stage(self, timeout_s: float) -> "NativeStaging":
        with _acl_errors_as_ours():
            return NativeStaging(self._device.stage(_milliseconds(timeout_s)))

    def release_finished(self) -> None:
        with _acl_errors_as_ours():
            self._device.release_finished()

    def trim(self) -> None:
        with _acl_errors_as_ours():
            self._device.trim()

    def state(self) -> DeviceState:
        with _acl_errors_as_ours():
            statistics = self._device.pool_statistics()
            free_bytes, total_bytes = self._device.memory()
        return DeviceState(
            self._device.stream_count,
            self._device.leased_stream_count,
            {field: getattr(statistics, field) for field in POOL_FIELDS},
            free_bytes,
            total_bytes,
        )

    def _check_work(self, field: str, work: float) -> None:
        if work > self._max_roi_work:
            problem = f"ask for {work:.3g} steps of work and the limit is {self._max_roi_work}"
            remedy = "send fewer or smaller boxes or a lower sampling_ratio, or raise --max-roi-work"
            raise LimitExceededError.of(Violation(f"{field}.data", problem, remedy))


def _native_call(call: DeviceCall) -> aclgrad_native.OperatorCall:
    plan = call.plan
    return (
        plan.spec.symbol,
        [(each.type.shape, each.type.dtype.acl, _native_content(each.content)) for each in call.inputs],
        plan.attributes,
        plan.output.shape,
        plan.output.dtype.acl,
        _native_output(call.output),
        # The data of a mask ends where the device stops reading.
        [index for index, rule in enumerate(plan.rules) if isinstance(rule, ArgmaxRule)],
    )


def _native_content(content: memoryview | StagedTensor | None) -> memoryview | aclgrad_native.StagedTensor | None:
    if isinstance(content, NativeStagedTensor):
        return content.native
    assert content is None or isinstance(content, memoryview)
    return content


def _native_output(output: ReplyPart | StagedTensor) -> aclgrad_native.ReplyPart | aclgrad_native.StagedTensor:
    if isinstance(output, NativeStagedTensor):
        return output.native
    assert isinstance(output, aclgrad_native.ReplyPart)
    return output


def _milliseconds(timeout_s: float) -> int:
    return max(1, round(timeout_s * 1000))


class NativeStaging:
    """The tensors of one call that comes in pieces."""

    def __init__(self, native: aclgrad_native.Staging) -> None:
        self._native = native

    def reserve(self, size_bytes: int) -> "NativeStagedTensor":
        with _acl_errors_as_ours(size_bytes):
            return NativeStagedTensor(self._native.reserve(size_bytes))

    def finish(self, timeout_s: float) -> None:
        with _acl_errors_as_ours():
            self._native.finish(_milliseconds(timeout_s))


class NativeStagedTensor:
    """A tensor in device memory that is filled or emptied piece by piece."""

    def __init__(self, native: aclgrad_native.StagedTensor) -> None:
        self.native = native

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        with _acl_errors_as_ours():
            self.native.write(offset, data, _milliseconds(timeout_s))

    def read_file(self, file: int, offset: int, timeout_s: float) -> int:
        with _acl_errors_as_ours():
            return self.native.read_file(file, offset, _milliseconds(timeout_s))

    def write_file(self, file: int, offset: int, timeout_s: float) -> None:
        with _acl_errors_as_ours():
            self.native.write_file(file, offset, _milliseconds(timeout_s))

    def read(self, offset: int, part: ReplyPart, timeout_s: float) -> None:
        assert isinstance(part, aclgrad_native.ReplyPart)
        with _acl_errors_as_ours():
            self.native.read(offset, part, _milliseconds(timeout_s))


def _keeps_executors(library: aclgrad_native.AclLibrary, settings: Settings) -> bool:
    """By default executors are kept where the library is known to run them again rightly."""
    return library.is_host if settings.executor_cache == "auto" else settings.executor_cache == "on"


def _takes_shapes(library: aclgrad_native.AclLibrary, settings: Settings) -> bool | None:
    """By default the host library does, for it is known to read nothing else; of a card it depends on the product."""
    if settings.shape_only == "auto":
        return True if library.is_host else None
    return settings.shape_only == "on"


def _mask(type: TensorType, data: memoryview, rule: ArgmaxRule) -> DeviceInput:
    """Returns the mask that stands for a checked argmax; its data ends where the device stops reading."""
    is_mask = type.dtype is rule.mask.dtype
    if is_mask and rule.layout is MaskLayout.UINT16_BITS:
        # Any bits are legal: one that stands for a cell in the padding is ignored.
        return DeviceInput(type, data)
    pooling = aclgrad_native.Pooling(
        rule.pooling.input_size,
        rule.pooling.output_size,
        rule.pooling.kernel_size,
        rule.pooling.stride,
        rule.pooling.padding,
    )
    batch, channels = (1, *rule.mask.shape[:-2])[-2:]
    item_bytes = 4 if is_mask else type.dtype.itemsize
    argmax = aclgrad_native.Argmax(data, item_bytes, batch, channels, pooling)
    if rule.layout is MaskLayout.UINT16_BITS:
        return DeviceInput(rule.mask, memoryview(argmax.bit_mask()))
    if item_bytes == 4:
        argmax.check()
        return DeviceInput(rule.mask, data)
    return DeviceInput(rule.mask, memoryview(argmax.int32_prefix()))


def _count_work(boxes: memoryview, rule: BoxRule) -> float:
    roi_align = aclgrad_native.RoiAlign(
        rule.channels,
        rule.height,
        rule.width,
        rule.pooled_height,
        rule.pooled_width,
        rule.spatial_scale,
        rule.sampling_ratio,
        rule.aligned,
    )
    return aclgrad_native.count_work(boxes, roi_align)


@contextmanager
def _acl_errors_as_ours(size_bytes: int = 0) -> Iterator[None]:
    """Translates; `size_bytes` is what the call needs in all."""
    try:
        yield
    except aclgrad_native.AclError as error:
        raise _as_ours(error, size_bytes) from error


def _as_ours(error: Exception, size_bytes: int) -> AclgradError:
    """Returns our error, with the library's as its cause, for the log."""
    ours: AclgradError
    if isinstance(error, aclgrad_native.OutOfMemoryError):
        ours = _out_of_memory(error, size_bytes)
    elif isinstance(error, aclgrad_native.AclError):
        ours = error_of_fault(error.fault, error.code)
    else:
        raise error
    ours.__cause__ = error
    return ours


def _out_of_memory(error: aclgrad_native.OutOfMemoryError, size_bytes: int) -> DeviceMemoryError:
    alone = max(error.size_bytes, size_bytes) > error.limit_bytes
    remedy = "send a smaller tensor, or raise --pool-bytes (ACLGRAD_POOL_BYTES)" if alone else "try again later"
    return DeviceMemoryError(
        f"an allocation of {error.size_bytes} bytes does not fit: {error.allocated_bytes} of the pool's "
        f"{error.limit_bytes} bytes are in use; {remedy}",
        remedy=remedy,
        retry_after_s=None if alone else RETRY_AFTER_MEMORY_S,
        metadata={"size_bytes": str(error.size_bytes), "limit": str(error.limit_bytes)},
    )
