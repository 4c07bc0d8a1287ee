"""The devices of the host, as the executor sees them. `native_device` has the real ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from aclgrad.errors import AclgradError
from aclgrad.operators.values import ValueRule
from aclgrad.tensors import TensorType
from aclgrad_server.validation import OperatorPlan


class ReplyPart(Protocol):
    """One payload of a message, which the device writes in place."""

    def fill_with_zeros(self) -> None: ...


class Reply(Protocol):
    """A message that is made once: payloads to be written, each behind a prefix."""

    def parts(self) -> Sequence[ReplyPart]: ...

    def finish(self) -> bytes: ...


class StagedTensor(Protocol):
    """A tensor in device memory that is filled or emptied piece by piece."""

    def write(self, offset: int, data: memoryview, timeout_s: float) -> None:
        """Copies bytes to their place; raises an AclgradError."""

    def read_file(self, file: int, offset: int, timeout_s: float) -> int:
        """Fills the tensor from an open file and returns how many bytes it had; raises OSError or an AclgradError."""

    def write_file(self, file: int, offset: int, timeout_s: float) -> None:
        """Writes the tensor into an open file; raises OSError or an AclgradError."""

    def read(self, offset: int, part: ReplyPart, timeout_s: float) -> None:
        """Fills the part with what begins there; raises an AclgradError."""


class Staging(Protocol):
    """The tensors of one call in device memory; they are given back when nobody holds them any more."""

    def reserve(self, size_bytes: int) -> StagedTensor:
        """Returns a tensor of unspecified values; raises DeviceMemoryError."""

    def finish(self, timeout_s: float) -> None:
        """Waits until all that was written is there; raises an AclgradError."""


@dataclass(frozen=True, slots=True)
class DeviceInput:
    """An input as the device reads it; without content its values are unspecified."""

    type: TensorType
    content: memoryview | StagedTensor | None


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A plan with the inputs that the device reads, and the place for its output."""

    plan: OperatorPlan
    inputs: Sequence[DeviceInput]
    output: ReplyPart | StagedTensor


@dataclass(frozen=True, slots=True)
class DeviceState:
    """What a device holds at one moment; the names in `pool` are the fields of `aclgrad.v1.PoolStatus`."""

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

    @property
    def deterministic(self) -> bool: ...

    def new_reply(self, sections: Sequence[tuple[bytes, int]]) -> Reply:
        """Returns a message of prefixes, each with so many bytes behind it."""

    def prepare(self, field: str, type: TensorType, data: memoryview, rule: ValueRule) -> DeviceInput:
        """Returns the input that the device reads, whose values keep the rule, or raises a RequestError."""

    def execute(self, call: DeviceCall, timeout_s: float) -> None:
        """Runs the operator and writes its output to its place; raises an AclgradError."""

    def execute_all(self, calls: Sequence[DeviceCall], timeout_s: float) -> list[AclgradError | None]:
        """Runs many, several at once; returns the error of each that failed."""

    def stage(self, timeout_s: float) -> Staging:
        """Returns a place for tensors that come or go in pieces; raises an AclgradError."""

    def release_finished(self) -> None:
        """Takes back what calls that were given up held, where the device is done with it; raises an AclgradError."""

    def trim(self) -> None:
        """Gives cached memory that is not in use back; raises an AclgradError."""

    def state(self) -> DeviceState: ...


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices that one server owns, and the library they belong to.

    `shape_only` says whether an input may come without values wherever the operator does not read them (True), never
    (False), or where it is known of the product (None).
    """

    library: str
    runtime_version: str
    devices: tuple[Device, ...]
    shape_only: bool | None = None
