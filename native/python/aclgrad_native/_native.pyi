from collections.abc import Sequence
from typing import final

class LibraryError(RuntimeError): ...

class AclError(RuntimeError):
    code: int
    fault: str
    call: str
    detail: str

class OutOfMemoryError(AclError):
    size_bytes: int
    allocated_bytes: int
    limit_bytes: int

class InvalidValueError(ValueError): ...

@final
class AclLibrary:
    def __init__(self, files: Sequence[tuple[str, bool]], config_path: str | None = None) -> None: ...
    @property
    def is_host(self) -> bool: ...
    @property
    def host_pointers(self) -> bool: ...
    def device_count(self) -> int: ...
    def version(self) -> str: ...

@final
class PoolStatistics:
    @property
    def allocated_bytes(self) -> int: ...
    @property
    def active_bytes(self) -> int: ...
    @property
    def largest_free_bytes(self) -> int: ...
    @property
    def reserved_bytes(self) -> int: ...
    @property
    def peak_allocated_bytes(self) -> int: ...
    @property
    def peak_reserved_bytes(self) -> int: ...
    @property
    def limit_bytes(self) -> int: ...
    @property
    def allocation_count(self) -> int: ...
    @property
    def hit_count(self) -> int: ...
    @property
    def retry_count(self) -> int: ...
    @property
    def out_of_memory_count(self) -> int: ...

@final
class PoolBlock:
    @property
    def address(self) -> int: ...
    @property
    def capacity(self) -> int: ...
    def release(self, stream: int = 0) -> None: ...

@final
class MemoryPool:
    def __init__(
        self,
        library: AclLibrary,
        *,
        limit_bytes: int,
        high_water_bytes: int | None = None,
        pass_through: bool = False,
        pinned: bool = False,
    ) -> None: ...
    def allocate(self, size_bytes: int, stream: int = 0) -> PoolBlock: ...
    def synchronized(self, stream: int) -> None: ...
    def trim(self) -> None: ...
    def statistics(self) -> PoolStatistics: ...

@final
class Pooling:
    def __init__(
        self,
        input_size: tuple[int, int],
        output_size: tuple[int, int],
        kernel_size: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[int, int],
    ) -> None: ...

@final
class RoiAlign:
    def __init__(
        self,
        channels: int,
        height: int,
        width: int,
        pooled_height: int,
        pooled_width: int,
        spatial_scale: float,
        sampling_ratio: int,
        aligned: bool,
    ) -> None: ...

@final
class Argmax:
    def __init__(
        self, data: bytes | memoryview, item_bytes: int, batch: int, channels: int, pooling: Pooling
    ) -> None: ...
    def check(self) -> None: ...
    def int32_prefix(self) -> bytes: ...
    def bit_mask(self) -> bytes: ...

def fault_class(code: int) -> str: ...
def check_indices(indices: bytes | memoryview, bound: int) -> None: ...
def count_work(boxes: bytes | memoryview, roi_align: RoiAlign) -> float: ...

@final
class ReplyBuffer:
    def __init__(self, prefix: bytes, payload_bytes: int) -> None: ...
    def fill_with_zeros(self) -> None: ...
    def finish(self) -> bytes: ...

@final
class Device:
    def __init__(
        self,
        library: AclLibrary,
        index: int,
        *,
        pool_limit_bytes: int | None,
        stream_limit: int,
        pool_high_water_bytes: int | None = None,
        pool_pass_through: bool = False,
        executor_limit: int = 0,
        deterministic: bool = False,
        hang_timeout_ms: int = 60_000,
    ) -> None: ...
    def execute(
        self,
        symbol: str,
        inputs: Sequence[tuple[Sequence[int], int, bytes | memoryview | None]],
        attributes: Sequence[bool | int | float | Sequence[int]],
        output_shape: Sequence[int],
        output_dtype: int,
        reply: ReplyBuffer,
        timeout_ms: int,
        prefixes: Sequence[int] = (),
    ) -> None: ...
    def trim(self) -> None: ...
    def pool_statistics(self) -> PoolStatistics: ...
    def memory(self) -> tuple[int, int]: ...
    @property
    def index(self) -> int: ...
    @property
    def soc_name(self) -> str: ...
    @property
    def is_deterministic(self) -> bool: ...
    @property
    def stream_count(self) -> int: ...
    @property
    def leased_stream_count(self) -> int: ...
