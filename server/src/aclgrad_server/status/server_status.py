"""The status of a server at one moment, made on any thread from plain attributes, whatever hangs meanwhile."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from itertools import chain
from typing import Final

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import MAX_PROGRAM_REST_BYTES, MAX_STEPS, MAX_TABLE_TENSORS
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.gate import Gate
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.devices.device import Device
from aclgrad_server.logs import dropped_lines
from aclgrad_server.place import Place
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import changed_settings
from aclgrad_server.statistics import CANCELLED, OK, PROGRAM_METHODS, Histogram
from aclgrad_server.status.problems import problems_of

VERSION: Final = version("aclgrad-server")
_PRESSURES: Final = (pb.MEMORY_PRESSURE_NONE, pb.MEMORY_PRESSURE_SOFT, pb.MEMORY_PRESSURE_HARD)
_POOL: Final = tuple(each.name for each in pb.PoolStatus.DESCRIPTOR.fields if not each.GetOptions().deprecated)


def server_status(view: ServerView, with_private: bool) -> pb.GetServerStatusResponse:
    """Returns the status of the server; details of its machine only if `with_private`."""
    settings, library, device, admission = view.settings, view.library, view.device, view.admission
    place, certificates = view.place, view.certificates
    status = pb.GetServerStatusResponse(
        version=VERSION,
        product=view.product or "",
        limits=pb.Limits(
            message_bytes=settings.max_message_bytes,
            tensor_bytes=settings.max_tensor_bytes,
            hang_timeout=_duration(settings.hang_timeout_s),
            program_steps=MAX_STEPS,
            program_tensors=MAX_TABLE_TENSORS,
            program_rest_bytes=MAX_PROGRAM_REST_BYTES,
            call_bytes=view.max_call_bytes,
        ),
        # The workers' own addresses, or those of a single server.
        endpoints=chain.from_iterable(place.endpoints if place else (view.addresses,)) if with_private else (),
        not_ready_reason=view.not_ready_reason or "",
        operators=_operators(view),
        programs=_programs(view),
        recent_failures=_failures(view),
        process=_process(view),
        changed_settings=changed_settings(settings, with_private),
        turned_off_operators=() if view.turned_off is None else view.turned_off.messages(),
        worker=None if place is None else _worker(place, with_private),
        start_time=None if view.ready_at is None else datetime.fromtimestamp(view.ready_at, UTC),
        uptime=_duration(view.ready_since and time.monotonic() - view.ready_since),
        certificate_remaining=None if certificates is None else _duration(certificates.expires_at - time.time()),
        queue=None if admission is None else _queue(admission, view.calls),
    )
    if library is not None:
        status.runtime_version, status.library = library.runtime_version, library.name
        status.versions.update(library.versions)
        status.executor_cache, status.computes_on_cpu = library.executor_cache, library.computes_on_cpu
    if device is not None:
        status.deterministic = device.deterministic
        status.devices.append(_device(device, None if admission is None else admission.large.memory))
    status.problems.extend(problems_of(status))
    return status


def _worker(place: Place, with_private: bool) -> pb.WorkerStatus:
    status = pb.WorkerStatus(index=place.index, restart_count=place.restart_count)
    for index, addresses in enumerate(place.endpoints if with_private else ()):
        row = status if index == place.index else status.siblings.add(index=index)
        row.addresses.extend(addresses)
    return status


def _device(device: Device, memory: Gate | None) -> pb.DeviceStatus:
    sample = device.sample
    status = pb.DeviceStatus(
        index=device.index,
        soc_name=device.soc_name,
        down=not device.is_up,
        oldest_step=_duration(device.oldest_step_s or None),
    )
    if memory is not None:
        status.claimed_bytes, status.claimed_bytes_limit = memory.used, memory.limit
        status.waiting_count = memory.waiting_count
    if sample is not None:
        executors = sample.executors
        status.sample_age.FromTimedelta(timedelta(seconds=time.monotonic() - sample.time_s))
        status.pool.MergeFrom(pb.PoolStatus(**{name: getattr(sample.pool, name) for name in _POOL}))
        status.stream_count, status.leased_stream_count = sample.streams, sample.leased_streams
        status.free_bytes, status.total_bytes = sample.free_bytes, sample.total_bytes
        status.abandoned_count = sample.abandoned_calls
        status.executor_count = executors.entry_count
        status.executor_hit_count, status.executor_miss_count = executors.hit_count, executors.miss_count
    return status


def _queue(admission: Admission, calls: OpenCalls) -> pb.QueueStatus:
    large, small = admission.large, admission.small
    receiving, replying = calls.transfers()
    return pb.QueueStatus(
        running_count=large.slots.used,
        waiting_count=large.waiting_count,
        running_limit=large.running_limit,
        waiting_limit=large.waiting_limit,
        running_bytes=large.memory.used,
        running_bytes_limit=large.memory.limit,
        reply_bytes=admission.replies.used,
        reply_bytes_limit=admission.replies.limit,
        receiving_count=receiving,
        replying_count=replying,
        small_running_count=small.slots.used,
        small_waiting_count=small.waiting_count,
        small_running_limit=small.running_limit,
        small_waiting_limit=small.waiting_limit,
    )


def _operators(view: ServerView) -> Iterator[pb.OperatorStatus]:
    """Yields each operator's counts, since the start and in the last minute."""
    calls: Counter[str] = Counter()
    failures: Counter[str] = Counter()
    for outcome, count in view.calls.statistics.calls().items():
        calls[outcome.operator] += count
        failures[outcome.operator] += 0 if outcome.reason in (OK, CANCELLED) else count
    recent = view.recent.by_operator()
    for name in sorted(calls):
        rate, durations = recent.get(name, (0.0, Histogram()))
        yield pb.OperatorStatus(
            name=name,
            call_count=calls[name],
            failure_count=failures[name],
            calls_per_second=rate,
            median_latency=_duration(durations.quantile_s(0.5)),
            p99_latency=_duration(durations.quantile_s(0.99)),
        )


def _programs(view: ServerView) -> pb.ProgramStatus:
    statistics = view.calls.statistics
    programs: Counter[str] = Counter()
    for (method, reason), count in statistics.rpcs().items():
        programs[reason] += count if method in PROGRAM_METHODS else 0
    steps: Counter[str] = Counter()
    for outcome, count in dict(statistics.items).items():
        steps[outcome.reason] += count
    per_second, durations = view.recent.programs()
    return pb.ProgramStatus(
        program_count=programs.total(),
        failure_count=programs.total() - programs[OK] - programs[CANCELLED],
        step_count=steps.total(),
        failed_step_count=steps.total() - steps[OK],
        programs_per_second=per_second,
        median_latency=_duration(durations.quantile_s(0.5)),
        p99_latency=_duration(durations.quantile_s(0.99)),
    )


def _failures(view: ServerView) -> Iterator[pb.FailureStatus]:
    """Yields the failures since the start by reason, operator and method, the latest first."""
    statistics = view.calls.statistics
    last = dict(statistics.last_failures)
    counts, recent = statistics.outcomes(), view.recent.outcomes()
    # By the current clock, so that ages are right even if the clock has been set since.
    offset_s = time.time() - time.monotonic()
    for failure in sorted(last, key=lambda each: last[each], reverse=True):
        yield pb.FailureStatus(
            **failure._asdict(),
            count=counts[failure],
            recent_count=recent[failure],
            last_time=datetime.fromtimestamp(offset_s + last[failure], UTC),
        )


def _process(view: ServerView) -> pb.ProcessStatus:
    calls, memory = view.calls, view.memory
    status = pb.ProcessStatus(
        active_rpc_count=calls.active_count,
        heartbeat_age=_duration(view.heartbeat.age_s),
        refused_counts=view.refusals(),
        slow_client_count=calls.slow_clients,
        memory_cut_count=calls.memory_cuts,
        dropped_log_line_count=dropped_lines(),
        event_loop_lag=_duration(view.recent.loop_lag().quantile_s(0.99)),
    )
    if memory is not None:
        status.used_bytes, status.limit_bytes = memory.used_bytes, memory.limit_bytes
        status.memory_pressure = _PRESSURES[memory.pressure]
    return status


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
