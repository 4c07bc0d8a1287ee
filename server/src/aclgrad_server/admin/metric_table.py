"""THE table of metrics: name, kind, labels, help, and how to read it. docs/metrics.md has the same rows.

What does not exist, or is not known yet, has no series. No label has an identity, an address, or a text of a client.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import version
from typing import Final

from aclgrad_server import logs
from aclgrad_server.calls.admission import Admission, Gate
from aclgrad_server.devices.device import Device, DeviceSample
from aclgrad_server.state import ServerState
from aclgrad_server.statistics.calls import STAGES, Row as CallRow
from aclgrad_server.statistics.histogram import Histogram

Labels = tuple[str, ...]
Value = float | Histogram
Read = Callable[[ServerState], Mapping[Labels, Value]]


class Kind(StrEnum):
    """The types of Prometheus that the table has."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Row:
    """One metric; `read` returns its values by labels, from attributes alone."""

    name: str
    kind: Kind
    labels: Labels
    help: str
    read: Read


def _one(read: Callable[[ServerState], Value | None]) -> Read:
    """Reads a metric without labels."""

    def values(state: ServerState) -> Mapping[Labels, Value]:
        value = read(state)
        return {} if value is None else {(): value}

    return values


def _admission(read: Callable[[Admission], float]) -> Read:
    return _one(lambda state: None if state.admission is None else read(state.admission))


def _gate(read: Callable[[Gate], float]) -> Read:
    """Reads what admission knows of each device's memory."""

    def values(state: ServerState) -> Mapping[Labels, Value]:
        if state.admission is None or state.group is None:
            return {}
        gates = zip(state.group.devices, state.admission.memories, strict=True)
        return {(str(device.index),): read(gate) for device, gate in gates}

    return values


def _device(read: Callable[[Device], float | None]) -> Read:
    def values(state: ServerState) -> Mapping[Labels, Value]:
        devices = () if state.group is None else state.group.devices
        found = {(str(device.index),): read(device) for device in devices}
        return {labels: value for labels, value in found.items() if value is not None}

    return values


def _sample(read: Callable[[DeviceSample], float]) -> Read:
    return _device(lambda device: None if device.sample is None else read(device.sample))


def _rows(read: Callable[[CallRow], float]) -> Read:
    """Reads the sums over the operators of each method."""

    def values(state: ServerState) -> Mapping[Labels, Value]:
        found: dict[Labels, Value] = {}
        for (method, _), row in dict(state.calls.statistics.rows).items():
            found[method,] = found.get((method,), 0) + read(row)
        return found

    return values


def _durations(state: ServerState) -> Mapping[Labels, Value]:
    return {labels: row.durations for labels, row in dict(state.calls.statistics.rows).items()}


def _stages(state: ServerState) -> Mapping[Labels, Value]:
    return {(stage,): each for stage, each in zip(STAGES, state.calls.statistics.stages, strict=True)}


def _utilization(admission: Admission) -> float:
    occupancy = admission.occupancy()
    return (occupancy.running + occupancy.waiting) / admission.running_limit


def _refused(state: ServerState) -> Mapping[Labels, Value]:
    found: dict[Labels, Value] = {
        ("draining",): state.calls.draining_refusals,
        ("memory",): state.calls.memory_refusals,
    }
    if state.access is not None:
        found["identity",] = state.access.refusals
    if state.admission is not None:
        found["queue",] = state.admission.refusals
    return found


def _up(state: ServerState) -> Mapping[Labels, Value]:
    found: dict[Labels, Value] = {}
    if state.unopened_device is not None:
        found[str(state.unopened_device),] = 0
    for device in () if state.group is None else state.group.devices:
        found[str(device.index),] = int(device.is_up)
    return found


def _info(state: ServerState) -> Mapping[Labels, Value]:
    if state.group is None or state.product is None:
        return {}
    return {(version("aclgrad-server"), state.product, state.group.library, state.group.runtime_version): 1}


def _remaining_s(state: ServerState) -> float | None:
    return None if state.certificates is None else state.certificates.expires_at - time.time()


_COUNTER, _GAUGE, _HISTOGRAM = Kind
_DEVICE: Final = ("device",)

METRICS: Final = (
    Row(
        "aclgrad_calls_total",
        _COUNTER,
        ("operator", "method", "reason"),
        "Operator calls that ended. Each call of a batch counts; a batch that fails as a whole counts once.",
        lambda state: state.calls.statistics.calls(),
    ),
    Row(
        "aclgrad_rpcs_total",
        _COUNTER,
        ("method", "reason"),
        "RPCs that ended.",
        lambda state: state.calls.statistics.rpcs(),
    ),
    Row(
        "aclgrad_rpc_duration_seconds",
        _HISTOGRAM,
        ("method", "operator"),
        "Time from the arrival of an RPC until its reply has left.",
        _durations,
    ),
    Row(
        "aclgrad_stage_duration_seconds",
        _HISTOGRAM,
        ("stage",),
        "Time that RPCs that succeeded spent in each stage: receive, plan, wait (admission), run (device), reply.",
        _stages,
    ),
    Row(
        "aclgrad_received_bytes_total",
        _COUNTER,
        ("method",),
        "Bytes of messages that were received.",
        _rows(lambda row: row.received_bytes),
    ),
    Row(
        "aclgrad_sent_bytes_total",
        _COUNTER,
        ("method",),
        "Bytes of messages that were sent.",
        _rows(lambda row: row.sent_bytes),
    ),
    Row(
        "aclgrad_active_rpcs",
        _GAUGE,
        (),
        "RPCs that have begun and whose reply has not left.",
        _one(lambda state: state.calls.active_count),
    ),
    Row("aclgrad_running_calls", _GAUGE, (), "Places in use.", _admission(lambda each: each.places.used)),
    Row("aclgrad_running_calls_limit", _GAUGE, (), "Places: --streams on each device.", _admission(lambda each: each.running_limit)),
    Row("aclgrad_waiting_calls", _GAUGE, (), "Calls that wait for memory or a place.", _admission(lambda each: each.occupancy().waiting)),
    Row("aclgrad_waiting_calls_limit", _GAUGE, (), "Calls that may wait: --max-waiting-calls.", _admission(lambda each: each.waiting_limit)),
    Row("aclgrad_utilization_ratio", _GAUGE, (), "Calls that run and wait for each place. The gauge for autoscalers.", _admission(_utilization)),
    Row("aclgrad_claimed_bytes", _GAUGE, _DEVICE, "Memory of the device that admission has given out.", _gate(lambda gate: gate.used)),
    Row("aclgrad_claimed_bytes_limit", _GAUGE, _DEVICE, "Memory of the device that admission may give out.", _gate(lambda gate: gate.limit)),
    Row("aclgrad_memory_waiting_calls", _GAUGE, _DEVICE, "Calls that wait for memory of the device.", _gate(lambda gate: gate.waiting_count)),
    Row("aclgrad_reply_bytes", _GAUGE, (), "Bytes of replies that clients have not fetched.", _admission(lambda each: each.replies.used)),
    Row("aclgrad_reply_bytes_limit", _GAUGE, (), "Bytes that such replies may take.", _admission(lambda each: each.replies.limit)),
    Row(
        "aclgrad_refused_rpcs_total",
        _COUNTER,
        ("cause",),
        "RPCs refused before their work began: draining, memory, identity, or queue (full).",
        _refused,
    ),
    Row("aclgrad_slow_clients_total", _COUNTER, (), "Calls cut because their client was too slow.", _one(lambda state: state.calls.slow_clients)),
    Row("aclgrad_memory_cuts_total", _COUNTER, (), "Unfinished calls cut because memory was short.", _one(lambda state: state.calls.memory_cuts)),
    Row("aclgrad_pool_allocated_bytes", _GAUGE, _DEVICE, "Memory of the pool that calls hold.", _sample(lambda each: each.pool.allocated_bytes)),
    Row("aclgrad_pool_reserved_bytes", _GAUGE, _DEVICE, "Memory that the pool has taken from the device.", _sample(lambda each: each.pool.reserved_bytes)),
    Row("aclgrad_pool_workspace_bytes", _GAUGE, _DEVICE, "Memory of the pool that idle streams keep.", _sample(lambda each: each.pool.workspace_bytes)),
    Row("aclgrad_pool_limit_bytes", _GAUGE, _DEVICE, "Memory that the pool may take.", _sample(lambda each: each.pool.limit_bytes)),
    Row("aclgrad_pool_largest_free_bytes", _GAUGE, _DEVICE, "Largest free block of the pool.", _sample(lambda each: each.pool.largest_free_bytes)),
    Row("aclgrad_pool_allocations_total", _COUNTER, _DEVICE, "Blocks taken from the pool.", _sample(lambda each: each.pool.allocation_count)),
    Row("aclgrad_pool_hits_total", _COUNTER, _DEVICE, "Blocks served without asking the device.", _sample(lambda each: each.pool.hit_count)),
    Row("aclgrad_pool_retries_total", _COUNTER, _DEVICE, "Blocks served only after free memory was given back.", _sample(lambda each: each.pool.retry_count)),
    Row("aclgrad_pool_out_of_memory_total", _COUNTER, _DEVICE, "Blocks refused because memory was short.", _sample(lambda each: each.pool.out_of_memory_count)),
    Row("aclgrad_streams", _GAUGE, _DEVICE, "Streams that exist.", _sample(lambda each: each.streams)),
    Row("aclgrad_leased_streams", _GAUGE, _DEVICE, "Streams in use.", _sample(lambda each: each.leased_streams)),
    Row("aclgrad_abandoned_calls", _GAUGE, _DEVICE, "Work that nobody waits for and that the device has not finished.", _sample(lambda each: each.abandoned_calls)),
    Row("aclgrad_executor_cache_entries", _GAUGE, _DEVICE, "Executors that are kept.", _sample(lambda each: each.executors.entry_count)),
    Row("aclgrad_executor_cache_hits_total", _COUNTER, _DEVICE, "Calls that ran with a kept executor.", _sample(lambda each: each.executors.hit_count)),
    Row("aclgrad_executor_cache_misses_total", _COUNTER, _DEVICE, "Calls that found no kept executor.", _sample(lambda each: each.executors.miss_count)),
    Row("aclgrad_device_free_bytes", _GAUGE, _DEVICE, "Free memory of the device, whoever uses the rest.", _sample(lambda each: each.free_bytes)),
    Row("aclgrad_device_total_bytes", _GAUGE, _DEVICE, "Memory of the device.", _sample(lambda each: each.total_bytes)),
    Row("aclgrad_device_up", _GAUGE, _DEVICE, "1, or 0 once the device is lost or unfit.", _up),
    Row(
        "aclgrad_device_oldest_step_seconds",
        _GAUGE,
        _DEVICE,
        "How long the longest request to the driver has taken; for a kernel, the time since its call's deadline.",
        _device(lambda device: device.oldest_step_s),
    ),
    Row("aclgrad_hang_timeout_seconds", _GAUGE, (), "The age of a step at which its device counts as lost.", _one(lambda state: state.settings.hang_timeout_s)),
    Row(
        "aclgrad_device_sample_age_seconds",
        _GAUGE,
        _DEVICE,
        "Age of the device's figures, which are sampled every second; they age if the driver hangs.",
        _sample(lambda each: time.monotonic() - each.time_s),
    ),
    Row("aclgrad_ready", _GAUGE, (), "1 if calls are welcome, as /readyz says.", _one(lambda state: int(state.is_ready))),
    Row(
        "aclgrad_event_loop_heartbeat_age_seconds",
        _GAUGE,
        (),
        "Seconds since the main loop last ran.",
        _one(lambda state: state.heartbeat.age_s()),
    ),
    Row("aclgrad_event_loop_lag_seconds", _HISTOGRAM, (), "How much later than asked for the main loop's beat ran.", _one(lambda state: state.loop_lag)),
    Row("aclgrad_memory_used_bytes", _GAUGE, (), "Resident memory of the process.", _one(lambda state: state.memory and state.memory.used_bytes)),
    Row("aclgrad_memory_limit_bytes", _GAUGE, (), "Memory that the process may use.", _one(lambda state: state.memory and state.memory.limit_bytes)),
    Row(
        "aclgrad_memory_pressure",
        _GAUGE,
        (),
        "0; 1 above the soft limit: no message is received; 2 above the hard limit: new calls are refused.",
        _one(lambda state: state.memory and state.memory.pressure),
    ),
    Row("aclgrad_certificate_remaining_seconds", _GAUGE, (), "Seconds until the TLS certificate expires.", _one(_remaining_s)),
    Row("aclgrad_log_lines_dropped_total", _COUNTER, (), "Log lines dropped because standard error was not read.", _one(lambda state: logs.dropped_lines())),
    Row("aclgrad_start_time_seconds", _GAUGE, (), "Unix time at which the server became ready.", _one(lambda state: state.ready_at)),
    Row(
        "aclgrad_info",
        _GAUGE,
        ("version", "product", "library", "runtime_version"),
        "1, with what the server runs as labels.",
        _info,
    ),
)
