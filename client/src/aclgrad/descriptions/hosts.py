"""The status of a host: the answers of its workers as one, for a supervisor's page and `aclgrad status`.

Both merge, because gRPC reaches a worker and never the supervisor, which loads no gRPC either.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.v1 import operator_service_pb2 as pb

Status = pb.GetServerStatusResponse
_Message = TypeVar("_Message", bound=Message)
_Told = TypeVar("_Told")

DOES_NOT_ANSWER: Final = "does not answer"

_REMEDIES: Final = (
    ("starting", "wait until its device is open and tested; the log says how far it is", False),
    ("draining", "nothing: its calls in flight end, and then its process does", False),
    ("restarts in", "see the log for why it ended; the supervisor starts it again", True),
    ("given up", "see the log for why it ended each time; restart the server to try it again", True),
    (DOES_NOT_ANSWER, "see its log, and whether its own address can be reached from here", True),
    ("", "see the log", True),
)
"""Problems of workers that take no calls: the beginning of the reason, the remedy, and whether it is serious."""

_OWN_SETTINGS: Final = ("admin", "device", "listen")
"""Settings that each worker has of its own by design."""

_JOINED: Final = (
    "devices",
    "endpoints",
    "operators",
    "problems",
    "programs",
    "recent_failures",
    "turned_off_operators",
    "worker",
    "workers",
)
"""Fields that are dropped before merging. The others are one worker's unless `merge` sets them."""


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """A worker's status, or in `reason` why there is none.

    `addresses` are those of this worker alone; without them, the status does not show them. `device_index` is that of
    the card, if the caller knows it without the worker, and `restart_count` is None if unknown.
    """

    index: int
    status: Status | None = None
    reason: str = DOES_NOT_ANSWER
    addresses: Sequence[str] = ()
    restart_count: int | None = None
    device_index: int | None = None


def merge(answers: Sequence[WorkerAnswer]) -> Status:
    """Returns the status of the host of these workers, of which there is at least one; `workers` has a row for each.

    Counts, rates, sizes and their limits are sums. Latencies, lags, ages and the pressure are those of the worst
    worker, the uptime is the longest, and the certificate is the first to expire. Versions, product, settings and
    limits of a request are those of the first worker whose device is open; if the workers differ in versions, product
    or settings, a problem says so. A worker's texts begin with its name, unless all workers that answer say the same.
    The host is ready if one worker is.
    """
    answers = sorted(answers, key=lambda each: each.index)
    answered = [(each.index, each.status) for each in answers if each.status is not None]
    rows = [_row(each) for each in answers]
    host = Status()
    if answered:
        _join(host, answered)
    host.not_ready_reason = "" if any(not each.not_ready_reason for each in rows) else rows[0].not_ready_reason
    host.workers.extend(rows)
    problems = [*_absences(answers), *_problems(answered), *_differences(_opened(answered))]
    host.problems.extend(sorted(problems, key=lambda each: not each.serious))
    return host


def _row(answer: WorkerAnswer) -> pb.WorkerStatus:
    row = pb.WorkerStatus(index=answer.index, addresses=answer.addresses, restart_count=answer.restart_count)
    status, device_index = answer.status, answer.device_index
    if status is None:
        row.not_ready_reason = answer.reason
    else:
        queue, process = status.queue, status.process
        row.not_ready_reason = status.not_ready_reason
        row.calls_per_second = sum(each.calls_per_second for each in status.operators)
        row.running_count = queue.running_count + queue.small_running_count
        row.waiting_count = queue.waiting_count + queue.small_waiting_count
        row.used_bytes, row.limit_bytes = process.used_bytes, process.limit_bytes
        if status.HasField("uptime"):
            row.uptime.CopyFrom(status.uptime)
        if process.HasField("event_loop_lag"):
            row.event_loop_lag.CopyFrom(process.event_loop_lag)
        if device_index is None and status.devices:
            device_index = status.devices[0].index
    if device_index is not None:
        row.device_index = device_index
    return row


def _join(host: Status, answered: Sequence[tuple[int, Status]]) -> None:
    """Sets all fields except those about single workers: rows, problems and readiness."""
    opened, statuses = _opened(answered), [status for _, status in answered]
    host.CopyFrom(opened[0][1])
    for name in _JOINED:
        host.ClearField(name)
    host.deterministic = all(status.deterministic for _, status in opened)
    for name in _apart(opened):
        host.changed_settings.pop(name, None)
    for index, status in answered:
        for device in status.devices:
            added = host.devices.add()
            added.CopyFrom(device)
            added.worker = index
    host.endpoints.extend(dict.fromkeys(address for status in statuses for address in status.endpoints))
    operators = _groups((each.name, each) for status in statuses for each in status.operators)
    host.operators.extend(sorted(map(_sum, operators), key=lambda each: each.name))
    failures = _groups(
        ((each.reason, each.operator, each.method), each) for status in statuses for each in status.recent_failures
    )
    host.recent_failures.extend(sorted(map(_sum, failures), key=lambda each: _time(each.last_time), reverse=True))
    for name in ("queue", "process", "programs"):
        if parts := _those_with(name, statuses):
            getattr(host, name).CopyFrom(_sum(parts))
    for name, choose in (("uptime", max), ("start_time", min), ("certificate_remaining", min)):
        if times := _those_with(name, statuses):
            getattr(host, name).CopyFrom(choose(times, key=_time))
    off = [
        (index, (each.name, each.reason, tuple(each.data_types)))
        for index, status in answered
        for each in status.turned_off_operators
    ]
    for who, (name, reason, dtypes) in sorted(_named(off, len(answered)), key=lambda each: each[1][0]):
        host.turned_off_operators.add(name=name, reason=who + reason, data_types=dtypes)


def _opened(answered: Sequence[tuple[int, Status]]) -> Sequence[tuple[int, Status]]:
    """Returns the workers whose device is open, or all if none is: before, they do not know their platform."""
    return [each for each in answered if each[1].library] or answered


def _those_with(name: str, statuses: Iterable[Status]) -> list[Any]:
    """Returns the values of a message field where it is set."""
    return [getattr(each, name) for each in statuses if each.HasField(name)]


def _groups(keyed: Iterable[tuple[object, _Message]]) -> list[list[_Message]]:
    """Returns the items grouped by key."""
    found: dict[object, list[_Message]] = {}
    for key, each in keyed:
        found.setdefault(key, []).append(each)
    return list(found.values())


def _sum(parts: Sequence[_Message]) -> _Message:
    """Returns one message for several: the sums of numbers, and the largest of times and enums."""
    total = type(parts[0])()
    total.CopyFrom(parts[0])
    for part in parts[1:]:
        for field, value in part.ListFields():
            name, before = field.name, getattr(total, field.name)
            if isinstance(value, Duration | Timestamp):
                if not total.HasField(name) or _time(value) > _time(before):
                    before.CopyFrom(value)
            elif field.message_type is not None:
                for key, count in value.items():
                    before[key] += count
            elif field.enum_type is not None:
                setattr(total, name, max(before, value))
            elif not isinstance(value, str):
                setattr(total, name, before + value)
    return total


def _time(value: Duration | Timestamp) -> tuple[int, int]:
    return value.seconds, value.nanos


def _named(told: Iterable[tuple[int, _Told]], count: int) -> Iterator[tuple[str, _Told]]:
    """Yields the workers' texts, each after "" if all of the `count` workers have it, else after the worker's name."""
    by: dict[_Told, list[int]] = {}
    for index, each in dict.fromkeys(told):
        by.setdefault(each, []).append(index)
    for each, indexes in by.items():
        if len(indexes) == count:
            yield "", each
        else:
            yield from ((_prefix(index), each) for index in indexes)


def _prefix(index: int) -> str:
    return f"worker {index}: "


def _absences(answers: Iterable[WorkerAnswer]) -> Iterator[pb.Problem]:
    """Yields a problem for each worker that takes no calls, unless the worker reports it itself."""
    for each in answers:
        reason = each.reason if each.status is None else each.status.not_ready_reason
        said = [] if each.status is None else each.status.problems
        if reason and not any(reason in problem.summary for problem in said):
            _, remedy, serious = next(row for row in _REMEDIES if reason.startswith(row[0]))
            yield pb.Problem(summary=_prefix(each.index) + reason, remedy=remedy, serious=serious)


def _problems(answered: Sequence[tuple[int, Status]]) -> Iterator[pb.Problem]:
    told = [
        (index, (each.summary, each.remedy, each.serious)) for index, status in answered for each in status.problems
    ]
    for who, (summary, remedy, serious) in _named(told, len(answered)):
        yield pb.Problem(summary=who + summary, remedy=remedy, serious=serious)


def _differences(opened: Sequence[tuple[int, Status]]) -> Iterator[pb.Problem]:
    """Yields a problem for each property that all workers should have in common but do not."""
    traits = [(index, _traits(status)) for index, status in opened]
    for name in dict.fromkeys(name for _, found in traits for name in found):
        by: dict[str, list[str]] = {}
        for index, found in traits:
            by.setdefault(found.get(name, "not given"), []).append(str(index))
        if len(by) > 1:
            values = (f"{each} (worker{'s' * (len(who) > 1)} {', '.join(who)})" for each, who in by.items())
            summary = f"the workers differ in {name}: {', '.join(values)}"
            yield pb.Problem(summary=summary, remedy="restart the server, so that all run the same")


def _traits(status: Status) -> dict[str, str]:
    """Returns the properties that a worker should have in common with its siblings, as text by name."""
    common = {
        "version": status.version,
        "library": f"{status.library} {status.runtime_version}".strip(),
        "product": f"{status.product} on the CPU" if status.computes_on_cpu else status.product,
    }
    versions = {f"the version of {name}": each for name, each in sorted(status.versions.items())}
    settings = {f"the setting {name}": each for name, each in sorted(status.changed_settings.items())}
    own = {f"the setting {name}" for name in _OWN_SETTINGS}
    return {name: each for name, each in (common | versions | settings).items() if name not in own}


def _apart(opened: Sequence[tuple[int, Status]]) -> list[str]:
    """Returns the names of settings that each worker has of its own."""
    return [name for name in _OWN_SETTINGS if len({status.changed_settings.get(name) for _, status in opened}) > 1]
