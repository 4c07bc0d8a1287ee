"""THE table of metrics, which docs/metrics.md repeats: names, kinds, labels, help, and what each of them reads.

No label has an identity, an address, or a text of a client.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from aclgrad_server import logs
from aclgrad_server.admin import metric_values as values
from aclgrad_server.admin.metric_values import Kind, Labels, Metric, Read

Source = TypeVar("Source")
COUNTER, GAUGE, HISTOGRAM = Kind
DEVICE: Final = ("device",)


def _each(
    kind: Kind,
    labels: Labels,
    reader: Callable[[Callable[[Source], Any]], Read],
    *rows: tuple[str, str, Callable[[Source], float | None]],
) -> Iterator[Metric]:
    """Yields metrics that differ in name, help, and what they read of one source."""
    for name, help, read in rows:
        yield Metric(name, kind, labels, help, reader(read))


METRICS: Final = (
    Metric(
        "aclgrad_calls_total",
        COUNTER,
        ("operator", "method", "reason"),
        "operator calls that ended; each call of a batch counts, a batch that fails as a whole counts once",
        lambda state: state.calls.statistics.calls(),
    ),
    Metric(
        "aclgrad_rpcs_total",
        COUNTER,
        ("method", "reason"),
        "RPCs that ended",
        values.rpcs,
    ),
    Metric(
        "aclgrad_rpc_duration_seconds",
        HISTOGRAM,
        ("method", "operator"),
        "time from the arrival of an RPC until its reply has left",
        values.durations,
    ),
    Metric(
        "aclgrad_stage_duration_seconds",
        HISTOGRAM,
        ("stage",),
        "time of successful RPCs in each stage: receive, plan, wait (admission), run (device), reply",
        values.stages,
    ),
    *_each(
        COUNTER,
        ("method",),
        values.of_methods,
        ("aclgrad_received_bytes_total", "bytes of messages received", lambda row: row.received_bytes),
        ("aclgrad_sent_bytes_total", "bytes of messages sent", lambda row: row.sent_bytes),
    ),
    Metric(
        "aclgrad_refused_rpcs_total",
        COUNTER,
        ("cause",),
        "RPCs refused before they ran: draining, memory, address, identity, share (of the caller), or queue (full)",
        values.refusals,
    ),
    *_each(
        COUNTER,
        (),
        values.of_calls,
        ("aclgrad_slow_clients_total", "calls cut because their client was too slow", lambda it: it.slow_clients),
        ("aclgrad_memory_cuts_total", "unfinished calls cut because memory was short", lambda it: it.memory_cuts),
    ),
    *_each(
        GAUGE,
        (),
        values.of_calls,
        ("aclgrad_active_rpcs", "RPCs that have begun and whose reply has not left", lambda it: it.active_count),
    ),
    *_each(
        GAUGE,
        ("room",),
        values.of_rooms,
        ("aclgrad_running_calls", "places in use, for large calls and for small ones", lambda it: it.places.used),
        ("aclgrad_running_calls_limit", "places", lambda it: it.running_limit),
        ("aclgrad_waiting_calls", "calls that wait for memory or a place", lambda it: it.waiting_count),
        ("aclgrad_waiting_calls_limit", "calls that may wait", lambda it: it.waiting_limit),
    ),
    *_each(
        GAUGE,
        (),
        values.of_admission,
        (
            "aclgrad_utilization_ratio",
            "running and waiting calls per place: for autoscalers",
            lambda it: it.utilization,
        ),
        ("aclgrad_reply_bytes", "replies that clients have not fetched", lambda it: it.replies.used),
        ("aclgrad_reply_bytes_limit", "the most that such replies may take", lambda it: it.replies.limit),
    ),
    *_each(
        GAUGE,
        DEVICE,
        values.of_device_memory,
        ("aclgrad_claimed_bytes", "memory that admission has given out", lambda it: it.used),
        ("aclgrad_claimed_bytes_limit", "memory that admission may give out", lambda it: it.limit),
        ("aclgrad_memory_waiting_calls", "calls that wait for this device's memory", lambda it: it.waiting_count),
    ),
    *_each(
        GAUGE,
        DEVICE,
        values.of_samples,
        ("aclgrad_pool_allocated_bytes", "pool: memory that calls hold", lambda it: it.pool.allocated_bytes),
        ("aclgrad_pool_reserved_bytes", "pool: memory taken from the device", lambda it: it.pool.reserved_bytes),
        ("aclgrad_pool_workspace_bytes", "pool: memory that idle streams keep", lambda it: it.pool.workspace_bytes),
        ("aclgrad_pool_limit_bytes", "pool: the most that it takes", lambda it: it.pool.limit_bytes),
        ("aclgrad_pool_largest_free_bytes", "pool: largest free block", lambda it: it.pool.largest_free_bytes),
        ("aclgrad_streams", "streams that exist", lambda it: it.streams),
        ("aclgrad_leased_streams", "streams in use", lambda it: it.leased_streams),
        ("aclgrad_abandoned_calls", "unfinished work that nobody waits for", lambda it: it.abandoned_calls),
        ("aclgrad_executor_cache_entries", "kept executors", lambda it: it.executors.entry_count),
        ("aclgrad_device_free_bytes", "free memory of the device", lambda it: it.free_bytes),
        ("aclgrad_device_total_bytes", "memory of the device", lambda it: it.total_bytes),
        (
            "aclgrad_device_sample_age_seconds",
            "age of the device's figures, which are sampled every second; they age if the driver hangs",
            lambda it: time.monotonic() - it.time_s,
        ),
    ),
    *_each(
        COUNTER,
        DEVICE,
        values.of_samples,
        ("aclgrad_pool_allocations_total", "pool: blocks given out", lambda it: it.pool.allocation_count),
        ("aclgrad_pool_hits_total", "pool: blocks given out without asking the device", lambda it: it.pool.hit_count),
        ("aclgrad_pool_retries_total", "pool: blocks that needed a trim first", lambda it: it.pool.retry_count),
        ("aclgrad_pool_out_of_memory_total", "pool: refused blocks", lambda it: it.pool.out_of_memory_count),
        ("aclgrad_executor_cache_hits_total", "calls that found a kept executor", lambda it: it.executors.hit_count),
        ("aclgrad_executor_cache_misses_total", "calls that found none", lambda it: it.executors.miss_count),
    ),
    Metric("aclgrad_device_up", GAUGE, DEVICE, "1, or 0 once the device is lost or unfit", values.device_up),
    Metric(
        "aclgrad_device_oldest_step_seconds",
        GAUGE,
        DEVICE,
        "how long the longest request to the driver has taken; of a kernel, the time since its call's deadline",
        values.of_device(lambda it: it.oldest_step_s),
    ),
    Metric(
        "aclgrad_event_loop_lag_seconds",
        HISTOGRAM,
        (),
        "how much later than asked for the main loop's beat ran",
        values.one(lambda it: it.loop_lag),
    ),
    *_each(
        GAUGE,
        (),
        values.of_memory,
        ("aclgrad_memory_used_bytes", "resident memory of the process", lambda it: it.used_bytes),
        ("aclgrad_memory_limit_bytes", "memory that the process may use", lambda it: it.limit_bytes),
        ("aclgrad_memory_pressure", "0; 1 above the soft limit; 2 above the hard limit", lambda it: it.pressure),
    ),
    *_each(
        GAUGE,
        (),
        values.one,
        ("aclgrad_hang_timeout_seconds", "age at which a step is a hang", lambda it: it.settings.hang_timeout_s),
        ("aclgrad_ready", "1 if calls are welcome, as /readyz says", lambda it: it.is_ready),
        (
            "aclgrad_event_loop_heartbeat_age_seconds",
            "time since the main loop last ran",
            lambda it: it.heartbeat.age_s(),
        ),
        ("aclgrad_certificate_remaining_seconds", "time until the TLS certificate expires", values.remaining_s),
        ("aclgrad_start_time_seconds", "unix time at which the server became ready", lambda it: it.ready_at),
    ),
    *_each(
        COUNTER,
        (),
        values.one,
        ("aclgrad_log_lines_dropped_total", "log lines that nobody read in time", lambda it: logs.dropped_lines()),
    ),
    Metric("aclgrad_info", GAUGE, values.INFO, "1; what the server runs is in the labels", values.info),
)
