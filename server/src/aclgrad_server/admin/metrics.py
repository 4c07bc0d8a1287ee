"""`/metrics`: attributes of the server in Prometheus's text format. Nothing that hangs keeps it from answering.

No label has an identity, an address, or a text of a client.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate, product
from typing import Any, Final, NamedTuple

from prometheus_client import GC_COLLECTOR, PROCESS_COLLECTOR
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.error_reason_pb2 import ErrorReason
from aclgrad.wire.limits import MAX_STEPS
from aclgrad_server import logs
from aclgrad_server.server_view import ServerView
from aclgrad_server.statistics import CANCELLED, OK, STAGES, Histogram, bound_s
from aclgrad_server.status.server_status import VERSION

Labels = tuple[str, ...]
Sources = Mapping[Any, Any]
"""Objects that metrics are read from, by labels."""

_METHODS: Final = tuple(pb.DESCRIPTOR.services_by_name["OperatorService"].methods_by_name)
_REASONS: Final = (OK, CANCELLED, *(name.removeprefix("ERROR_REASON_") for name in ErrorReason.keys()[1:]))
_LAST_BUCKET: Final = 28
"""Durations over 2**28 us, about 268 s, are in the +Inf bucket only."""
_HISTOGRAMS: Final = ("_duration_seconds", "_lag_seconds", "_work_seconds", "_program_steps")
_KINDS: Final = {"_total": "counter", **dict.fromkeys(_HISTOGRAMS, "histogram")}
"""By the end of the name; others are gauges."""
_BOUNDS: Final = [str(bound_s(number)) for number in range(_LAST_BUCKET + 1)]
_SIZE_BOUNDS: Final = [str(float(1 << number)) for number in range(MAX_STEPS.bit_length())]


class Metric(NamedTuple):
    """One metric. `read` returns None if the value does not exist or is not known yet."""

    name: str
    kind: str
    labels: Labels
    help: str
    sources: Callable[[ServerView], Sources]
    read: Callable[[Any], float | Histogram | None]


def _rpcs(view: ServerView) -> Sources:
    # With every reason from the start: Prometheus's rate() ignores the first value of a new series.
    return dict.fromkeys(product(_METHODS, _REASONS), 0) | view.calls.statistics.rpcs()


def _bytes(direction: str, view: ServerView) -> Sources:
    found: Counter[Labels] = Counter()
    for (method, _), row in dict(view.calls.statistics.rows).items():
        found[method,] += getattr(row, direction)
    return found


def _device(view: ServerView) -> Sources:
    device = view.device
    index = device.index if device else (*view.settings.device, 0)[0] if view.readiness.is_for_good else None
    return {} if index is None else {(str(index),): view}


def _info(view: ServerView) -> Sources:
    library = view.library
    if library is None or view.product is None:
        return {}
    return {(VERSION, view.product, library.name, library.runtime_version): 1}


def _metrics(
    sources: Callable[[ServerView], Sources],
    labels: Labels,
    *rows: tuple[str, str] | tuple[str, str, str | Callable[[Any], float | None]],
) -> Iterator[Metric]:
    """Yields metrics of the same sources: the source itself, an attribute of it, or a function's result for it."""
    for name, help, *rest in rows:
        (read,) = rest or (lambda source: source,)
        kind = next((kind for end, kind in _KINDS.items() if name.endswith(end)), "gauge")
        yield Metric(name, kind, labels, help, sources, partial(_follow, read) if isinstance(read, str) else read)


def _follow(path: str, source: Any) -> Any:
    """Returns an attribute, such as `memory.used_bytes`; None if something on the way does not exist."""
    for name in path.split("."):
        source = None if source is None else getattr(source, name)
    return source


METRICS: Final = (
    *_metrics(
        lambda view: view.calls.statistics.calls(),
        ("operator", "method", "reason"),
        (
            "aclgrad_calls_total",
            "operator calls that ended; each step of a program counts, a program that fails as a whole counts once",
        ),
    ),
    *_metrics(_rpcs, ("method", "reason"), ("aclgrad_rpcs_total", "RPCs that ended")),
    *_metrics(
        lambda view: dict(view.calls.statistics.rows),
        ("method", "operator"),
        ("aclgrad_rpc_duration_seconds", "time from the arrival of an RPC until its reply has left", "durations"),
    ),
    *_metrics(
        lambda view: {(stage,): each for stage, each in zip(STAGES, view.calls.statistics.stages, strict=True)},
        ("stage",),
        (
            "aclgrad_stage_duration_seconds",
            "time of successful RPCs in each stage: receive, plan, wait (admission), run (device), reply",
        ),
    ),
    *_metrics(
        lambda view: {(): view.calls.statistics},
        (),
        ("aclgrad_program_steps", "steps of each program that was answered", "program_steps"),
        (
            "aclgrad_program_work_seconds",
            "about how long the device takes for each program that was answered, by its work",
            "program_work",
        ),
    ),
    *_metrics(
        partial(_bytes, "received_bytes"), ("method",), ("aclgrad_received_bytes_total", "bytes of messages received")
    ),
    *_metrics(partial(_bytes, "sent_bytes"), ("method",), ("aclgrad_sent_bytes_total", "bytes of messages sent")),
    *_metrics(
        lambda view: {(cause,): count for cause, count in view.refusals().items()},
        ("cause",),
        (
            "aclgrad_refused_rpcs_total",
            "RPCs refused before they ran: draining, memory, address, identity, share (of the caller), queue (full), "
            "or workspace (no memory for it)",
        ),
    ),
    *_metrics(
        lambda view: {(name,): room for name, room in view.admission.rooms.items()} if view.admission else {},
        ("room",),
        ("aclgrad_running_calls", "slots in use, for large calls and for small ones", "slots.used"),
        ("aclgrad_running_calls_limit", "slots", "running_limit"),
        ("aclgrad_waiting_calls", "calls that wait for memory or a slot", "waiting_count"),
        ("aclgrad_waiting_calls_limit", "calls that may wait", "waiting_limit"),
    ),
    *_metrics(
        _device,
        ("device",),
        ("aclgrad_claimed_bytes", "memory that admission has given out", "admission.large.memory.used"),
        ("aclgrad_claimed_bytes_limit", "memory that admission may give out", "admission.large.memory.limit"),
        (
            "aclgrad_memory_waiting_calls",
            "calls that wait for this device's memory",
            "admission.large.memory.waiting_count",
        ),
        ("aclgrad_pool_allocated_bytes", "pool: memory that calls hold", "device.sample.pool.allocated_bytes"),
        ("aclgrad_pool_reserved_bytes", "pool: memory taken from the device", "device.sample.pool.reserved_bytes"),
        ("aclgrad_pool_limit_bytes", "pool: the most that it takes", "device.sample.pool.limit_bytes"),
        ("aclgrad_pool_largest_free_bytes", "pool: largest free block", "device.sample.pool.largest_free_bytes"),
        ("aclgrad_pinned_bytes", "pinned memory of the host for copies", "device.sample.pinned_bytes"),
        ("aclgrad_streams", "streams that exist", "device.sample.streams"),
        ("aclgrad_leased_streams", "streams in use", "device.sample.leased_streams"),
        ("aclgrad_abandoned_calls", "unfinished work that nobody waits for", "device.sample.abandoned_calls"),
        ("aclgrad_executor_cache_entries", "kept executors", "device.sample.executors.entry_count"),
        ("aclgrad_device_free_bytes", "free memory of the device", "device.sample.free_bytes"),
        ("aclgrad_device_total_bytes", "memory of the device", "device.sample.total_bytes"),
        (
            "aclgrad_device_sample_age_seconds",
            "age of the device's figures, which are sampled every second; they age if the driver hangs",
            lambda it: (at := _follow("device.sample.time_s", it)) and time.monotonic() - at,
        ),
        ("aclgrad_pool_allocations_total", "pool: blocks given out", "device.sample.pool.allocation_count"),
        ("aclgrad_pool_hits_total", "pool: blocks given out without asking the device", "device.sample.pool.hit_count"),
        ("aclgrad_pool_retries_total", "pool: blocks that needed a trim first", "device.sample.pool.retry_count"),
        ("aclgrad_pool_out_of_memory_total", "pool: refused blocks", "device.sample.pool.out_of_memory_count"),
        ("aclgrad_executor_cache_hits_total", "calls that found a kept executor", "device.sample.executors.hit_count"),
        ("aclgrad_executor_cache_misses_total", "calls that found none", "device.sample.executors.miss_count"),
        (
            "aclgrad_device_up",
            "1, or 0 once the device is lost or unfit",
            lambda it: bool(_follow("device.is_up", it)),
        ),
        (
            "aclgrad_device_oldest_step_seconds",
            "how long the longest request to the driver has taken; of a kernel, the time since its call's deadline",
            "device.oldest_step_s",
        ),
    ),
    *_metrics(
        lambda view: {(): view},
        (),
        ("aclgrad_slow_clients_total", "calls cut because their client was too slow", "calls.slow_clients"),
        ("aclgrad_memory_cuts_total", "unfinished calls cut because memory was short", "calls.memory_cuts"),
        ("aclgrad_active_rpcs", "RPCs that have begun and whose reply has not left", "calls.active_count"),
        ("aclgrad_utilization_ratio", "running and waiting calls per slot: for autoscalers", "admission.utilization"),
        ("aclgrad_reply_bytes", "replies that clients have not fetched", "admission.replies.used"),
        ("aclgrad_reply_bytes_limit", "the most that such replies may take", "admission.replies.limit"),
        ("aclgrad_kept_program_bytes", "cached plans of programs", "programs.kept_bytes"),
        ("aclgrad_event_loop_lag_seconds", "how much later than asked for the main loop's beat ran", "loop_lag"),
        ("aclgrad_memory_used_bytes", "resident memory of the process", "memory.used_bytes"),
        ("aclgrad_memory_limit_bytes", "memory that the process may use", "memory.limit_bytes"),
        ("aclgrad_memory_pressure", "0; 1 above the soft limit; 2 above the hard limit", "memory.pressure"),
        ("aclgrad_hang_timeout_seconds", "age at which a step is a hang", "settings.hang_timeout_s"),
        ("aclgrad_ready", "1 if calls are welcome, as /readyz says", lambda it: not it.not_ready_reason),
        ("aclgrad_event_loop_heartbeat_age_seconds", "time since the main loop last ran", "heartbeat.age_s"),
        (
            "aclgrad_certificate_remaining_seconds",
            "time until the TLS certificate expires",
            lambda it: it.certificates and it.certificates.expires_at - time.time(),
        ),
        ("aclgrad_start_time_seconds", "unix time at which the server became ready", "ready_at"),
        ("aclgrad_log_lines_dropped_total", "log lines that nobody read in time", lambda _: logs.dropped_lines()),
    ),
    *_metrics(
        _info,
        ("version", "product", "library", "runtime_version"),
        ("aclgrad_info", "1; what the server runs is in the labels"),
    ),
)


class Metrics(Collector):
    def __init__(self, view: ServerView) -> None:
        self._view = view

    def collect(self) -> Iterator[Family]:
        for name, kind, labels, help, sources, read in METRICS:
            family = _FAMILIES[kind](name, help, labels=labels)
            for values, source in sources(self._view).items():
                value = read(source)
                if isinstance(value, Histogram):
                    family.add_metric(values, *_buckets(value))
                elif value is not None:
                    family.add_metric(values, value)
            yield family
        yield from PROCESS_COLLECTOR.collect()
        yield from GC_COLLECTOR.collect()


_FAMILIES: Final[Mapping[str, Any]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    now = histogram.copy()
    bounds = _SIZE_BOUNDS if now.has_sizes else _BOUNDS
    buckets = [(bound, float(count)) for bound, count in zip(bounds, accumulate(now.counts), strict=False)]
    return [*buckets, ("+Inf", float(now.count))], now.total
