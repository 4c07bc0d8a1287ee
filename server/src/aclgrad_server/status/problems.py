"""The problems of a server in plain words, from rules over its status alone.

The page and `aclgrad status` show them, and the alerts of deploy/monitoring get their remedies from here.
"""

from collections.abc import Iterator
from typing import Final

from google.protobuf.duration_pb2 import Duration

from aclgrad.tensors import DTYPES
from aclgrad.units import counted, size, span
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.statistics import NONE

Status = pb.GetServerStatusResponse
Found = tuple[str, str, bool]
"""A problem, its remedy, and whether it is serious."""

FULL: Final = 0.8  # a queue with a larger share in use is nearly full
LATE_STEP: Final = 0.5  # a step is suspicious after this share of the hang timeout
OLD_SAMPLE_S: Final = 5.0
LATE_BEAT_S: Final = 1.0
LATE_LOOP_S: Final = 0.25
SLOW_CALL_S: Final = 10.0  # impatient callers give up after this
LONG_TAIL_S: Final = 1.0
LONG_TAIL: Final = 100  # with a larger ratio of p99 to median, some calls wait behind others
DAY_S: Final = 86_400.0
EXPIRES_SOON_S: Final = 7 * DAY_S
IN_PIECES: Final = 0.75  # share of a pool's free memory beside its largest block

REMEDIES: Final = {
    "AclgradNotReady": "see the log; look at the card (npu-smi info), then restart the process",
    "AclgradDeviceLost": "see the log and npu-smi info; a new process tries it again",
    "AclgradDeviceHanging": "see npu-smi info; the process restarts if the step never ends",
    "AclgradQueueFull": "add a replica, or make fewer calls at once",
    "AclgradMemoryPressure": "give the container more memory, or make fewer and smaller calls at once",
    "AclgradPoolExhausted": "raise --pool-bytes, or send smaller calls",
    "AclgradSlowClients": "see their network, or raise --client-timeout-s",
    "AclgradErrorRate": "see the log for the request ids and report them",
    "AclgradEventLoopBlocked": "give the process more CPU; if it has enough, see what holds the loop (py-spy dump)",
    "AclgradCertificateExpiring": (
        "renew it and replace the files of --tls-certificate and --tls-key; they are read again"
    ),
    "AclgradIdentitiesRefused": "see the audit lines of the log",
    "AclgradLogLinesDropped": "have standard error read faster, or log less (--log-level)",
}
"""Remedies by alert; docs/runbook.md has a section for each."""
_NOT_READY: Final = {
    "starting": "wait until the device is open and tested; the log says how far it is",
    "draining": "nothing: calls in flight end, and then the process does",
    "device lost": "the process ends, and Docker or Kubernetes starts a new one; see npu-smi info if it happens again",
}
"""Remedies by the reason why calls are not welcome."""
_LATE_LOOP: Final = REMEDIES["AclgradEventLoopBlocked"]
_FAILURES: Final[dict[str, Found]] = {
    "INTERNAL_ERROR": ("the server itself failed", REMEDIES["AclgradErrorRate"], True),
    "DEVICE_MEMORY_EXHAUSTED": ("the device had no memory", REMEDIES["AclgradPoolExhausted"], True),
    "SERVER_BUSY": (
        "the server had no room, or their client its share",
        "see what was refused (queue, memory, share): add a replica, or make fewer calls at once",
        False,
    ),
    "CLIENT_TOO_SLOW": ("clients were too slow and were cut", REMEDIES["AclgradSlowClients"], False),
    "UNAUTHENTICATED": ("the caller was unknown", REMEDIES["AclgradIdentitiesRefused"], False),
    "PERMISSION_DENIED": ("the caller lacked the right", REMEDIES["AclgradIdentitiesRefused"], False),
}
"""Problems by the reasons of failures that concern operators of the server."""


def problems_of(status: Status) -> list[pb.Problem]:
    """Returns the problems, the worst first."""
    rules = _readiness, _devices, _process, _queue, _failures, _latency, _certificate, _turned_off
    found = [
        pb.Problem(summary=summary, remedy=remedy, serious=is_serious)
        for rule in rules
        for summary, remedy, is_serious in rule(status)
    ]
    return sorted(found, key=lambda each: not each.serious)


def _readiness(status: Status) -> Iterator[Found]:
    if reason := status.not_ready_reason:
        is_hung = _seconds(status.process.heartbeat_age) > LATE_BEAT_S
        others = _LATE_LOOP if is_hung else REMEDIES["AclgradNotReady"]
        yield f"not ready: {reason}", _NOT_READY.get(reason, others), reason not in ("starting", "draining")


def _devices(status: Status) -> Iterator[Found]:
    limit_s = _seconds(status.limits.hang_timeout)
    for device in status.devices:
        number = f"device {device.index}"
        name = f"{number} ({'CPU as ' if status.computes_on_cpu else ''}{device.soc_name})"
        step_s, age_s = _seconds(device.oldest_step), _seconds(device.sample_age)
        if device.down:
            yield f"{name} is down", REMEDIES["AclgradDeviceLost"], True
        elif step_s > limit_s * LATE_STEP > 0:
            summary = f"{name} has worked on one step for {step_s:.0f} s; after {limit_s:.0f} s it counts as lost"
            yield summary, REMEDIES["AclgradDeviceHanging"], True
        elif age_s > OLD_SAMPLE_S:
            summary = f"the driver of {name} has not answered for {age_s:.0f} s"
            yield summary, "see npu-smi info; the figures of the device are as old", True
        pool, abandoned = device.pool, device.abandoned_count
        if abandoned and abandoned >= device.stream_count / 2:
            summary = f"{number} works on {counted(abandoned, 'call')} that nobody waits for"
            yield summary, "give clients longer deadlines, or look for a kernel that hangs", False
        free = pool.reserved_bytes - pool.allocated_bytes
        if free > pool.limit_bytes / 4 and pool.largest_free_bytes < (1 - IN_PIECES) * free:
            summary = f"the free memory of {number}'s pool is in pieces: large calls may fail"
            yield summary, "lower --streams, or restart the process in a quiet hour", False


def _process(status: Status) -> Iterator[Found]:
    process = status.process
    age_s, lag_s = _seconds(process.heartbeat_age), _seconds(process.event_loop_lag)
    if age_s > LATE_BEAT_S:
        yield f"the event loop, on which all calls depend, has not run for {age_s:.0f} s", _LATE_LOOP, True
    elif lag_s > LATE_LOOP_S:
        yield f"the event loop is up to {lag_s * 1e3:.0f} ms late", _LATE_LOOP, False
    if process.memory_pressure > pb.MEMORY_PRESSURE_NONE:
        is_hard = process.memory_pressure >= pb.MEMORY_PRESSURE_HARD
        effect = "new calls are refused" if is_hard else "the oldest unfinished calls are refused"
        share = 100 * process.used_bytes / max(1, process.limit_bytes)
        summary = f"memory is short: {share:.0f} % of {process.limit_bytes / 2**20:.0f} MiB is used; {effect}"
        yield summary, REMEDIES["AclgradMemoryPressure"], True
    if count := process.dropped_log_line_count:
        yield f"{counted(count, 'log line')} dropped since the start", REMEDIES["AclgradLogLinesDropped"], False


def _queue(status: Status) -> Iterator[Found]:
    queue = status.queue
    rooms = (
        ("the queue", queue.waiting_count, queue.waiting_limit),
        ("the queue of small calls", queue.small_waiting_count, queue.small_waiting_limit),
    )
    for name, waiting, limit in rooms:
        if limit and waiting >= FULL * limit:
            summary = f"{name} is {'full' if waiting >= limit else 'nearly full'}: {waiting} of {limit} calls wait"
            yield summary, REMEDIES["AclgradQueueFull"], True
    if queue.reply_bytes_limit and queue.reply_bytes >= FULL * queue.reply_bytes_limit:
        summary = f"replies of {size(queue.reply_bytes)} wait to be fetched, of at most {size(queue.reply_bytes_limit)}"
        yield summary, REMEDIES["AclgradSlowClients"], False


def _failures(status: Status) -> Iterator[Found]:
    for reason, (what, remedy, is_serious) in _FAILURES.items():
        if count := sum(each.recent_count for each in status.recent_failures if each.reason == reason):
            yield f"{counted(count, 'call')} failed with {reason} in the last minute: {what}", remedy, is_serious


def _latency(status: Status) -> Iterator[Found]:
    """Yields a problem for the operator with the longest p99, if that is long in itself or beside the median."""
    slow = []
    for each in status.operators:
        median_s, p99_s = _seconds(each.median_latency), _seconds(each.p99_latency)
        if p99_s >= SLOW_CALL_S or p99_s >= max(LONG_TAIL_S, LONG_TAIL * median_s):
            slow.append((p99_s, median_s, each.name))
    if slow:
        p99_s, median_s, name = max(slow)
        what = "programs and calls without an operator" if name == NONE else f"calls of {name}"
        summary = f"{what} take long: half of them up to {span(median_s)}, 99 of 100 up to {span(p99_s)}"
        remedy = "if many wait, add a replica; if many are received or replied to, make fewer large calls at once"
        yield summary, remedy, False


def _certificate(status: Status) -> Iterator[Found]:
    if not status.HasField("certificate_remaining"):
        return
    remaining_s = _seconds(status.certificate_remaining)
    remedy = REMEDIES["AclgradCertificateExpiring"]
    if remaining_s <= 0:
        yield "the TLS certificate has expired: no client connects any more", remedy, True
    elif remaining_s < EXPIRES_SOON_S:
        left = f"{remaining_s / DAY_S:.0f} days" if remaining_s >= 2 * DAY_S else f"{remaining_s / 3600:.0f} hours"
        yield f"the TLS certificate expires in {left}", remedy, remaining_s < DAY_S


def _turned_off(status: Status) -> Iterator[Found]:
    for each in status.turned_off_operators:
        dtypes = ", ".join(dtype.name for dtype in DTYPES.values() if dtype.wire in each.data_types)
        summary = f"{each.name} is turned off{dtypes and f' for {dtypes}'}: {each.reason}"
        yield summary, "see aclgrad check; other operators are served", False


def _seconds(duration: Duration) -> float:
    return duration.ToNanoseconds() / 1e9
