"""What a server says of itself and how busy it is. What only a newer server says is left out."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import TypeVar

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.v1 import operator_service_pb2 as pb

_Plain = TypeVar("_Plain")


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """The memory pool of one device: what calls hold of it, what it holds of the device, and the most of both."""

    allocated_bytes: int
    reserved_bytes: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int
    limit_bytes: int
    allocation_count: int
    hit_count: int
    retry_count: int
    out_of_memory_count: int
    largest_free_bytes: int
    workspace_bytes: int


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One device: its chip, its streams, and its memory inside and outside the pool."""

    index: int
    soc_name: str
    stream_count: int
    leased_stream_count: int
    pool: PoolStatus
    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """How many calls run and wait, what they hold on the devices, and the limits of both."""

    running_count: int
    waiting_count: int
    running_limit: int
    waiting_limit: int
    running_bytes: int
    running_bytes_limit: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a message in either direction and of a tensor."""

    message_bytes: int
    tensor_bytes: int


@dataclass(frozen=True, slots=True)
class TurnedOffOperator:
    """An operator of the product that the server does not serve because it failed the self-test, and how it failed."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server at one moment.

    `product` compares equal to an `aclgrad.Product`, unless it is one that this client does not know. `start_time`, in
    UTC, is None if the server does not report it. `versions` are those of the driver and CANN's packages, if there are
    any. `endpoints` are the addresses of the workers or replicas, this server included.
    """

    version: str
    runtime_version: str
    library: str
    product: str
    start_time: datetime | None
    devices: tuple[DeviceStatus, ...]
    queue: QueueStatus
    limits: Limits
    deterministic: bool
    endpoints: tuple[str, ...]
    executor_cache: bool
    versions: Mapping[str, str]
    turned_off_operators: tuple[TurnedOffOperator, ...]


def status_of(message: pb.GetServerStatusResponse) -> ServerStatus:
    """Returns the status in a server's answer."""
    return _plain(
        ServerStatus,
        message,
        start_time=_time_of(message.start_time) if message.HasField("start_time") else None,
        devices=tuple(_plain(DeviceStatus, each, pool=_plain(PoolStatus, each.pool)) for each in message.devices),
        queue=_plain(QueueStatus, message.queue),
        limits=_plain(Limits, message.limits),
        endpoints=tuple(message.endpoints),
        versions=dict(message.versions),
        turned_off_operators=tuple(_plain(TurnedOffOperator, each) for each in message.turned_off_operators),
    )


def _time_of(message: Timestamp) -> datetime | None:
    try:
        return message.ToDatetime(UTC)
    except (OverflowError, ValueError):
        # Beyond the calendar.
        return None


def _plain(kind: type[_Plain], message: Message, **converted: object) -> _Plain:
    """Returns a dataclass with the fields of the message that have its names, and with the converted ones."""
    names = (each.name for each in fields(kind) if each.name not in converted)  # type: ignore[arg-type]
    return kind(**{name: getattr(message, name) for name in names}, **converted)
