"""The devices of the host, as the executor sees them. The only module that knows the native runtime."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aclgrad_native
from aclgrad.errors import DeviceMemoryError
from aclgrad_server.faults import RETRY_AFTER_MEMORY_S, StartError, error_of_code
from aclgrad_server.settings import Settings
from aclgrad_server.validation import OperatorPlan

log = logging.getLogger(__name__)


class Reply(Protocol):
    """A message whose payload the device writes in place."""

    def fill_with_zeros(self) -> None: ...

    def finish(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What a device holds at one moment; the fields of `pool` are those of `aclgrad.v1.PoolStatus`."""

    stream_count: int
    leased_stream_count: int
    pool: dict[str, int]
    free_bytes: int
    total_bytes: int


class Device(Protocol):
    """One device: executes plans, several at once, each on a stream of its own."""

    @property
    def index(self) -> int: ...

    @property
    def soc_name(self) -> str: ...

    def new_reply(self, prefix: bytes, payload_bytes: int) -> Reply: ...

    def execute(self, plan: OperatorPlan, reply: Reply, timeout_s: float) -> None: ...

    def state(self) -> DeviceState: ...


POOL_FIELDS = (
    "allocated_bytes",
    "reserved_bytes",
    "peak_allocated_bytes",
    "peak_reserved_bytes",
    "limit_bytes",
    "allocation_count",
    "hit_count",
    "retry_count",
    "out_of_memory_count",
)


class NativeDevice:
    """A device of an ACL library."""

    def __init__(self, library: aclgrad_native.AclLibrary, index: int, settings: Settings) -> None:
        self._device = aclgrad_native.Device(
            library, index, pool_limit_bytes=settings.pool_bytes, stream_limit=settings.streams
        )
        self.index = index
        self.soc_name = self._device.soc_name

    def new_reply(self, prefix: bytes, payload_bytes: int) -> aclgrad_native.ReplyBuffer:
        return aclgrad_native.ReplyBuffer(prefix, payload_bytes)

    def execute(self, plan: OperatorPlan, reply: Reply, timeout_s: float) -> None:
        """Runs the operator and writes its output into the reply; raises the AclgradError of any ACL code."""
        assert isinstance(reply, aclgrad_native.ReplyBuffer)
        with _acl_errors_as_ours():
            self._device.execute(
                plan.spec.symbol,
                [(tensor.type.shape, tensor.type.dtype.acl, tensor.data) for tensor in plan.inputs],
                plan.attributes,
                plan.output.shape,
                plan.output.dtype.acl,
                reply,
                max(1, round(timeout_s * 1000)),
            )

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


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices that one server owns, and the library they belong to."""

    library: str
    runtime_version: str
    devices: tuple[Device, ...]


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
            raise StartError(f"there is no device {unknown or 0}: the runtime shows {count}; {remedy}")
        devices = tuple(NativeDevice(library, index, settings) for index in indices)
    except aclgrad_native.LibraryError as error:
        remedy = "give --backend host, ascend (after CANN's set_env.sh), or the path of an ACL library"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    except aclgrad_native.AclError as error:
        remedy = "check the devices with npu-smi and the file of --acl-config"
        raise StartError(f"backend {settings.backend!r}: {error}; {remedy}") from error
    name = Path(files[0][0]).name
    log.info("opened %d device(s) of %s with %s", len(devices), devices[0].soc_name, name)
    return DeviceGroup(name, library.version(), devices)


@contextmanager
def _acl_errors_as_ours() -> Iterator[None]:
    try:
        yield
    except aclgrad_native.OutOfMemoryError as error:
        raise _out_of_memory(error) from error
    except aclgrad_native.AclError as error:
        raise error_of_code(error.code) from error


def _out_of_memory(error: aclgrad_native.OutOfMemoryError) -> DeviceMemoryError:
    alone = error.size_bytes > error.limit_bytes
    remedy = "send a smaller tensor, or raise --pool-bytes (ACLGRAD_POOL_BYTES)" if alone else "try again later"
    return DeviceMemoryError(
        f"an allocation of {error.size_bytes} bytes does not fit: {error.allocated_bytes} of the pool's "
        f"{error.limit_bytes} bytes are in use; {remedy}",
        remedy=remedy,
        retry_after_s=None if alone else RETRY_AFTER_MEMORY_S,
        metadata={"size_bytes": str(error.size_bytes), "limit": str(error.limit_bytes)},
    )
