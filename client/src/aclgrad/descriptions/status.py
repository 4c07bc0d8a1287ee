"""A server's status. Fields that only a newer server has are omitted."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol, TypeVar, get_args

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.operators.subjects import by_subject
from aclgrad.units import number
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


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """One device: its chip, its streams, its memory inside and outside the pool, and its executors.

    `claimed_bytes` is the memory that calls were given. `sample_age` says how old the figures of the driver are.
    `oldest_step` is None if nothing runs. `worker` serves the device, in the status of a host.
    """

    index: int
    soc_name: str
    stream_count: int
    leased_stream_count: int
    pool: PoolStatus
    free_bytes: int
    total_bytes: int
    down: bool
    sample_age: timedelta | None
    oldest_step: timedelta | None
    abandoned_count: int
    executor_count: int
    executor_hit_count: int
    executor_miss_count: int
    claimed_bytes: int
    claimed_bytes_limit: int
    waiting_count: int
    worker: int | None


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """How many calls run and wait, what they and replies not yet fetched hold, and the limits of each.

    Small calls, which have room of their own, are counted apart.
    Other calls are on their way: `receiving_count` come in, and the replies of `replying_count` go out.
    """

    running_count: int
    waiting_count: int
    running_limit: int
    waiting_limit: int
    running_bytes: int
    running_bytes_limit: int
    reply_bytes: int
    reply_bytes_limit: int
    receiving_count: int
    replying_count: int
    small_running_count: int
    small_waiting_count: int
    small_running_limit: int
    small_waiting_limit: int


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a message in either direction, of a tensor, of one step on a device, of a program, and of a call.

    A program has so many steps, and tensors in its table, and bytes beside those of tensors; a call takes at most
    `call_bytes` of the device's memory at once. Those that the server does not tell are 0.
    """

    message_bytes: int
    tensor_bytes: int
    hang_timeout: timedelta | None
    program_steps: int
    program_tensors: int
    program_rest_bytes: int
    call_bytes: int


@dataclass(frozen=True, slots=True)
class TurnedOffOperator:
    """An operator of the product that failed the self-test, how it failed, and the dtypes that are refused for it.

    `data_types` has those of the first input, and is empty if the operator is not served at all.
    """

    name: str
    reason: str
    data_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """What those who run the server should know, and what to do; a `serious` one makes calls fail, or soon will."""

    summary: str
    remedy: str
    serious: bool


@dataclass(frozen=True, slots=True)
class OperatorStatus:
    """The calls of one operator since the start, and in the last minute; latencies are None if there were none then."""

    name: str
    call_count: int
    failure_count: int
    calls_per_second: float
    median_latency: timedelta | None
    p99_latency: timedelta | None


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """The programs since the start, their steps, and how many of both failed; rate and latencies of the last minute.

    `failure_count` is that of programs that failed as a whole. Latencies are None if there were no programs.
    """

    program_count: int
    failure_count: int
    step_count: int
    failed_step_count: int
    programs_per_second: float
    median_latency: timedelta | None
    p99_latency: timedelta | None


@dataclass(frozen=True, slots=True)
class FailureStatus:
    """How many calls failed since the start for one reason, with one operator and method; `last_time` is in UTC.

    `recent_count` of them failed in the last minute.
    """

    reason: str
    operator: str
    method: str
    count: int
    last_time: datetime | None
    recent_count: int


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """The process: its memory ("none", "soft" or "hard" is the pressure, None if unknown), event loop, and protection.

    Counts, except that of active RPCs, are since the start.
    """

    used_bytes: int
    limit_bytes: int
    memory_pressure: str | None
    active_rpc_count: int
    heartbeat_age: timedelta | None
    event_loop_lag: timedelta | None
    refused_counts: Mapping[str, int]
    slow_client_count: int
    memory_cut_count: int
    dropped_log_line_count: int


@dataclass(frozen=True, slots=True)
class SiblingWorker:
    """Another worker of the host, and the addresses at which it alone answers."""

    index: int
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """A worker: a process of a host that serves one device, and that alone answers at its `addresses`.

    `device_index`, `uptime`, `restart_count` and `event_loop_lag` are None if unknown. `not_ready_reason` is empty if
    the worker takes calls. Small calls count among those that run and wait.
    """

    index: int
    addresses: tuple[str, ...]
    siblings: tuple[SiblingWorker, ...]
    device_index: int | None
    not_ready_reason: str
    uptime: timedelta | None
    restart_count: int | None
    calls_per_second: float
    running_count: int
    waiting_count: int
    used_bytes: int
    limit_bytes: int
    event_loop_lag: timedelta | None


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """A server at one moment. `problems` come first if you look for what is wrong: the worst one is the first.

    `product` compares equal to an `aclgrad.Product`, unless it is one that this client does not know. `start_time`, in
    UTC, is None if the server does not report it. `versions` are those of the driver and CANN's packages, if there are
    any. `endpoints` are the addresses of the workers or replicas, this server included. `not_ready_reason` is empty if
    calls are welcome. `certificate_remaining` is None without TLS, and negative if the certificate has expired.
    `changed_settings` are those that differ from their defaults. With `computes_on_cpu`, the chips of the devices only
    say whose rules the library follows. `programs` is None if the server does not report them.

    If a supervisor runs several workers on the host, one of them has answered: `worker` says which one and where its
    `siblings` are, and has no figures, because those of the status are its own. Otherwise it is None. `workers` is
    empty in the answer of a server; `aclgrad status` fills it with a row for each worker of the host.
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
    problems: tuple[Problem, ...]
    not_ready_reason: str
    uptime: timedelta | None
    operators: tuple[OperatorStatus, ...]
    recent_failures: tuple[FailureStatus, ...]
    process: ProcessStatus
    certificate_remaining: timedelta | None
    changed_settings: Mapping[str, str]
    computes_on_cpu: bool
    worker: WorkerStatus | None
    workers: tuple[WorkerStatus, ...]
    programs: ProgramStatus | None

    @property
    def ready(self) -> bool:
        """Whether calls are welcome."""
        return not self.not_ready_reason


def status_of(message: pb.GetServerStatusResponse) -> ServerStatus:
    """Returns the status in a server's answer."""
    return _plain(ServerStatus, message)


_UNNAMED: Final = {
    "none": "{} without a single operator (malformed, cancelled before they were read, or programs that failed as a "
    "whole)",
    "unknown": "{} of operators that the server does not know",
}
"""What calls under these names of `OperatorStatus` are, with their number."""


class _Named(Protocol):
    """A message or a description."""

    @property
    def name(self) -> str: ...

    @property
    def call_count(self) -> int: ...


class _Failed(Protocol):
    @property
    def operator(self) -> str: ...

    @property
    def method(self) -> str: ...


_Operator = TypeVar("_Operator", bound=_Named)


def named(operators: Iterable[_Operator]) -> dict[str, list[_Operator]]:
    """Returns the operators of each subject, without calls of no known operator."""
    return by_subject((each for each in operators if each.name not in _UNNAMED), lambda each: each.name)


def unnamed(operators: Iterable[_Named]) -> str:
    """Returns a sentence about calls of no known operator; empty if there were none."""
    told = [_UNNAMED[each.name].format(number(each.call_count)) for each in operators if each.name in _UNNAMED]
    return f"Other calls: {', '.join(told)}." if told else ""


def called(failure: _Failed) -> str:
    """Returns what failed: the operator, if there is one, and the method."""
    operator = {"none": "", "unknown": "unknown operator"}.get(failure.operator, failure.operator)
    return ", ".join(filter(None, (operator, failure.method)))


_CLASSES: Final[dict[str, type]] = {
    each.__name__: each
    for each in (
        DeviceStatus,
        FailureStatus,
        Limits,
        OperatorStatus,
        PoolStatus,
        Problem,
        ProcessStatus,
        ProgramStatus,
        QueueStatus,
        SiblingWorker,
        TurnedOffOperator,
        WorkerStatus,
    )
}
"""Dataclasses by the names of their messages."""


def _plain(kind: type[_Plain], message: Message) -> _Plain:
    """Returns a dataclass with the message's fields of the same names."""
    named = fields(kind)  # type: ignore[arg-type]
    return kind(**{each.name: _value(message, each.name, each.type) for each in named})


def _value(message: Message, name: str, annotation: object) -> object:
    """Returns a field without protobuf types; None if it is absent and the annotation allows None."""
    value, field = getattr(message, name), message.DESCRIPTOR.fields_by_name[name]
    if field.has_presence and type(None) in get_args(annotation) and not message.HasField(name):
        return None
    if field.enum_type is not None:
        values = field.enum_type.values_by_number
        if isinstance(value, int):
            return _name_of(values, value)
        return tuple(known for each in value if (known := _name_of(values, each)) is not None)
    if field.message_type is None:
        return value if isinstance(value, str | bool | int | float) else tuple(value)
    if field.message_type.GetOptions().map_entry:
        return dict(value)
    kind = _CLASSES.get(field.message_type.name)
    if kind is None:
        return _time_of(value)
    return _plain(kind, value) if isinstance(value, Message) else tuple(_plain(kind, each) for each in value)


def _name_of(values: Mapping[int, Any], number: int) -> str | None:
    """Returns the name of an enum's value in lower case, without its prefix; None if it is unspecified or unknown."""
    prefix = values[0].name.removesuffix("UNSPECIFIED")
    return values[number].name.removeprefix(prefix).lower() if number and number in values else None


def _time_of(message: Timestamp | Duration) -> datetime | timedelta | None:
    try:
        return message.ToDatetime(UTC) if isinstance(message, Timestamp) else message.ToTimedelta()
    except (OverflowError, ValueError):
        # Beyond the calendar.
        return None
