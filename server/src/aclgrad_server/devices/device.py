"""The devices of the host, as the calls see them. `native_device` has the real ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.plan import OperatorPlan

OnEnd = Callable[[], None]
"""Called once, on the event loop, when a device is done with a call, even if nobody waits for it any more."""

Content = Any
"""The bytes of one input: a buffer, a `StagedTensor`, or None if the device gets none."""


class StagedTensor(Protocol):
    """A tensor that is filled or emptied piece by piece; one piece at a time. Deadlines are times of `time.monotonic`.

    Every method raises an AclgradError if the device fails or the deadline passes.
    """

    size_bytes: int

    async def write(self, offset: int, data: memoryview, deadline: float) -> None:
        """Copies bytes to their place."""

    async def read(self, offset: int, size_bytes: int, prefix: bytes, deadline: float) -> bytes:
        """Returns a copy of these bytes behind the prefix."""

    async def read_file(self, file: int, offset: int, deadline: float) -> int:
        """Fills the tensor from an open file and returns how many bytes it had; also raises OSError."""

    async def write_file(self, file: int, offset: int, deadline: float) -> None:
        """Writes the tensor into an open file; also raises OSError."""

    async def finish(self, deadline: float) -> None:
        """Waits until all that was written, to this tensor or one staged with it, has arrived."""

    def close(self) -> None:
        """Gives the tensor up; work under way still ends."""


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What a device holds at one moment; the names in `pool` are the fields of `aclgrad.v1.PoolStatus`."""

    stream_count: int
    leased_stream_count: int
    pool: dict[str, int]
    free_bytes: int
    total_bytes: int


class Device(Protocol):
    """One device. It takes calls, several at once, each on a stream of its own, and never blocks the event loop.

    A deadline is a time of `time.monotonic`. If the caller is cancelled, work that has not begun is dropped, and other
    work is left to the device; `on_end` is called in either case.
    """

    @property
    def index(self) -> int: ...

    @property
    def soc_name(self) -> str: ...

    @property
    def deterministic(self) -> bool: ...

    @property
    def pool_limit_bytes(self) -> int: ...

    def prepare(self, plan: OperatorPlan) -> object:
        """Returns the plan in the form that the device takes."""

    async def execute(self, plan: OperatorPlan, contents: Sequence[Content], deadline: float, on_end: OnEnd) -> bytes:
        """Returns the plan's ExecuteOperatorResponse; raises an AclgradError."""

    async def execute_into(
        self, plan: OperatorPlan, contents: Sequence[Content], target: StagedTensor, deadline: float, on_end: OnEnd
    ) -> None:
        """Runs the operator and leaves its output on the device; raises an AclgradError."""

    async def execute_all(
        self,
        calls: Sequence[tuple[OperatorPlan, Sequence[Content], bytes]],
        deadline: float,
        on_end: OnEnd,
    ) -> tuple[bytes, list[AclgradError | None]]:
        """Runs many. Returns their outputs, each behind its prefix, and the error of each that failed."""

    async def stage(self, tensors: Sequence[tuple[int, bool]], deadline: float, on_end: OnEnd) -> list[StagedTensor]:
        """Returns a tensor of each size, in host memory if its flag is set.

        They are released when all of them are closed. `on_end` is called then, or when this fails.
        """

    async def join(self, pieces: Sequence[bytes | memoryview]) -> bytes:
        """Returns the pieces as one."""

    async def release_finished(self) -> None:
        """Reclaims what abandoned calls held, if the device is done with it; raises an AclgradError."""

    async def trim(self) -> None:
        """Gives cached memory that is not in use back; raises an AclgradError."""

    async def state(self) -> DeviceState:
        """Raises an AclgradError."""

    def check(self) -> None:
        """Raises DeviceLostError if the device is lost or one of its steps hangs; never blocks."""


OnLost = Callable[[Device, DeviceLostError], None]


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices that one server owns, and the library they belong to.

    `shape_only` says whether an input may come without values if the operator does not read them: always (True), never
    (False), or if the product is known not to read them (None). `executor_cache` says that executors run again.
    """

    library: str
    runtime_version: str
    devices: tuple[Device, ...]
    shape_only: bool | None = None
    executor_cache: bool = False
