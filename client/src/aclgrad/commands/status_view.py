"""A server's status as text and tables, its problems first."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from rich.table import Table
from rich.text import Text

from aclgrad.descriptions.status import (
    FailureStatus,
    OperatorStatus,
    ProgramStatus,
    ServerStatus,
    WorkerStatus,
    called,
    named,
    unnamed,
)
from aclgrad.tables import table as columns
from aclgrad.units import number, rate, size, span

Line = tuple[str, str]
Part = Text | Table


def parts(found: ServerStatus, target: str) -> Iterator[Part]:
    """Yields the lines and tables of a status, from the most important one down."""
    if not found.library:
        what = f"aclgrad {found.version} at {target}, {found.product}"
        yield Text(f"{what}; the server shows more to callers with the right `status`")
        return
    for problem in found.problems:
        summary = (problem.summary, "bold red" if problem.serious else "bold yellow")
        yield Text.assemble(summary, f": {problem.remedy}")
    if not found.problems:
        yield Text("all is well", "bold green")
    for name, told in (*_server(found, target), *_load(found), *_programs(found.programs), *_protection(found)):
        if told:
            yield Text(f"{name + ':':17}{told}")
    yield from (table for table in (_workers(found.workers), _devices(found)) if table.row_count)
    if (operators := _operators(found.operators)).row_count:
        yield operators
    if told := unnamed(found.operators):
        yield Text(told)
    if found.recent_failures:
        yield _failures(found.recent_failures)


def _server(found: ServerStatus, target: str) -> Iterator[Line]:
    up = f", up for {_span(found.uptime)}" if found.uptime is not None else ""
    yield "server", f"aclgrad {found.version} at {target}{up}"
    yield "product", f"{found.product} on the CPU" if found.computes_on_cpu else found.product
    yield "library", f"{found.library} {found.runtime_version}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in sorted(found.versions.items()))
    yield "settings", ", ".join(f"{name}={value}" for name, value in sorted(found.changed_settings.items()))
    limits = found.limits
    yield "largest message", size(limits.message_bytes)
    if limits.program_steps:
        sizes = f"{number(limits.program_steps)} steps, {number(limits.program_tensors)} tensors in its table"
        memory = f", {size(limits.call_bytes)} of the device at once" if limits.call_bytes else ""
        yield "largest program", f"{sizes}, {size(limits.program_rest_bytes)} beside them{memory}"
    if found.certificate_remaining is not None:
        yield "certificate", f"expires in {_span(found.certificate_remaining)}"


def _load(found: ServerStatus) -> Iterator[Line]:
    queue, process = found.queue, found.process
    per_second = sum(each.calls_per_second for each in found.operators)
    load = f"{queue.running_count} of {queue.running_limit} run, {queue.waiting_count} of {queue.waiting_limit} wait"
    yield "calls", f"{load}, {rate(per_second)} a second"
    if queue.small_running_limit:
        run = f"{queue.small_running_count} of {queue.small_running_limit} run"
        yield "small calls", f"{run}, {queue.small_waiting_count} of {queue.small_waiting_limit} wait"
    yield "on their way", f"{queue.receiving_count} received, {queue.replying_count} replied to"
    yield "memory of calls", f"{size(queue.running_bytes)} of {size(queue.running_bytes_limit)}"
    yield "replies", f"{size(queue.reply_bytes)} of {size(queue.reply_bytes_limit)} not yet fetched"
    if process.limit_bytes:
        yield "process", f"{size(process.used_bytes)} of {size(process.limit_bytes)}"
    if process.event_loop_lag is not None:
        yield "event loop", f"99 of 100 turns at most {_span(process.event_loop_lag)} late"


def _programs(found: ProgramStatus | None) -> Iterator[Line]:
    if found is not None and found.program_count:
        ran = f"{number(found.program_count)} ran, {number(found.failure_count)} failed"
        steps = f"{number(found.step_count)} steps, {number(found.failed_step_count)} failed"
        latencies = f"p50 {_span(found.median_latency)}, p99 {_span(found.p99_latency)}"
        yield "programs", f"{ran}; {steps}; {rate(found.programs_per_second)} a second, {latencies}"


def _protection(found: ServerStatus) -> Iterator[Line]:
    process = found.process
    yield "refused", _counts(process.refused_counts.items())
    yield "cut", _counts([("slow clients", process.slow_client_count), ("memory", process.memory_cut_count)])
    yield "log lines dropped", _counts([("", process.dropped_log_line_count)])
    for each in found.turned_off_operators:
        dtypes = f" ({', '.join(each.data_types)})" if each.data_types else ""
        yield "turned off", f"{each.name}{dtypes}: {each.reason}"


def _counts(counts: Iterable[tuple[str, int]]) -> str:
    return ", ".join(f"{name} {count:,}".strip() for name, count in sorted(counts) if count)


def _workers(workers: tuple[WorkerStatus, ...]) -> Table:
    table = columns("worker address state", "calls/s", "run", "wait", "memory", "restarts", "up")
    for each in workers:
        counts = (rate(each.calls_per_second), number(each.running_count), number(each.waiting_count))
        restarts = "-" if each.restart_count is None else number(each.restart_count)
        # The problems above say it in full.
        state = each.not_ready_reason.partition(":")[0] or "ready"
        name = (str(each.index), ", ".join(each.addresses), state)
        table.add_row(*name, *counts, size(each.used_bytes), restarts, _span(each.uptime))
    return table


def _devices(found: ServerStatus) -> Table:
    table = columns("worker " * bool(found.workers) + "device chip state", "streams", "pool", "most", "limit", "free")
    for device in found.devices:
        pool = device.pool
        chip = f"CPU as {device.soc_name}" if found.computes_on_cpu else device.soc_name
        state = "down" if device.down else "up"
        streams = f"{device.leased_stream_count} of {device.stream_count}"
        sizes = (pool.reserved_bytes, pool.peak_reserved_bytes, pool.limit_bytes, device.free_bytes)
        worker = [] if device.worker is None else [str(device.worker)]
        table.add_row(*worker, str(device.index), chip, state, streams, *map(size, sizes))
    return table


def _operators(operators: tuple[OperatorStatus, ...]) -> Table:
    table = columns("operator", "calls/s", "p50", "p99", "calls", "failed")
    for subject, members in named(operators).items():
        table.add_row(Text(subject, "bold"))
        for each in members:
            latencies = [_span(each.median_latency), _span(each.p99_latency)]
            counts = number(each.call_count), number(each.failure_count)
            table.add_row(each.name, rate(each.calls_per_second), *latencies, *counts)
    return table


def _failures(failures: tuple[FailureStatus, ...]) -> Table:
    table = columns("failures", "last minute", "in all", "last")
    for each in failures:
        last = f"{span((datetime.now(UTC) - each.last_time).total_seconds())} ago" if each.last_time else "-"
        table.add_row(f"{each.reason} {called(each)}", number(each.recent_count), number(each.count), last)
    return table


def _span(duration: timedelta | None) -> str:
    return "-" if duration is None else span(duration.total_seconds())
