"""The devices of the host, as the executor sees them. `native_device` has the real ones."""

from dataclasses import dataclass
from typing import Protocol

from aclgrad.operators.values import ValueRule
from aclgrad.tensors import TensorView
from aclgrad_server.validation import OperatorPlan


class Reply(Protocol):
    """A message whose payload the device writes in place."""

    def fill_with_zeros(self) -> None: ...

    def finish(self) -> bytes: ...


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

    def new_reply(self, prefix: bytes, payload_bytes: int) -> Reply: ...

    def prepare(self, field: str, tensor: TensorView, rule: ValueRule) -> TensorView:
        """Returns the tensor that the device reads, whose values keep the rule, or raises a RequestError."""

    def execute(self, plan: OperatorPlan, inputs: tuple[TensorView, ...], reply: Reply, timeout_s: float) -> None:
        """Runs the operator on these inputs and writes its output into the reply; raises an AclgradError."""

    def trim(self) -> None:
        """Gives cached memory that is not in use back; raises an AclgradError."""

    def state(self) -> DeviceState: ...


@dataclass(frozen=True, slots=True)
class DeviceGroup:
    """The devices that one server owns, and the library they belong to."""

    library: str
    runtime_version: str
    devices: tuple[Device, ...]
