"""What an operator wants to know of a running server: rules over its metrics, and what to do about each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from aclgrad.check.rows import Finding, Verdict
from aclgrad.units import size, span
from aclgrad_server.doctor.scrape import Labels, Scrape

RUNBOOK: Final = "docs/runbook.md"
_DAY_S: Final = 86400


@dataclass(frozen=True, slots=True)
class Rule:
    """Judges each sample of a metric: it fails or is noted from a value on, or below one.

    A counter fails if it grows by so much while the doctor looks, and is noted if it is that large since the start.
    """

    topic: str
    alert: str
    """Whose section of the runbook tells more."""
    metric: str
    says: str
    """With the labels, `value`, `limit`, their `value_size`, `limit_size` and `span`, and `growth` of a counter."""
    remedy: str
    fails: float | None = None
    notes: float | None = None
    limit: str = ""
    """The metric that the value is a share of."""
    labels: Mapping[str, str] = field(default_factory=dict)
    is_below: bool = False
    is_counter: bool = False


def _counter(topic: str, alert: str, metric: str, what: str, remedy: str, *, fails: bool = True, **labels: str) -> Rule:
    says = f"{{value:.0f}} {what} since the start, {{growth:.0f}} of them while the doctor looked"
    return Rule(topic, alert, metric, says, remedy, 1 if fails else None, 1, labels=labels, is_counter=True)


RULES: Final = (
    _counter(
        "restarts", "AclgradWorkerRestarting", "aclgrad_worker_restarts_total", "restarts of this worker",
        "find how it ended in the log, in the line of the supervisor and its own before it",
    ),
    Rule(
        "device", "AclgradDeviceLost", "aclgrad_device_up", "device {device} is lost or unfit",
        "a new process recovers a lost one (exit code 4); if it comes back, look at npu-smi info and the log",
        fails=1, is_below=True,
    ),
    Rule(
        "device", "AclgradDeviceHanging", "aclgrad_device_oldest_step_seconds",
        "a step of device {device} has taken {value:.1f} s, and after {limit:g} s the device is lost",
        "look at npu-smi info; a call that may take so long needs a larger --hang-timeout-s",
        fails=0.5, notes=0.1, limit="aclgrad_hang_timeout_seconds",
    ),
    Rule(
        "device", "AclgradDeviceHanging", "aclgrad_device_sample_age_seconds",
        "the figures of device {device} are {value:.0f} s old, so its driver does not answer",
        "look at npu-smi info; restart the process if it stays so", fails=10, notes=3,
    ),
    Rule(
        "event loop", "AclgradEventLoopBlocked", "aclgrad_event_loop_heartbeat_age_seconds",
        "the main loop has not run for {value:.1f} s", "restart the process, after `--loop-alarm-ms 10` has said why",
        fails=2, notes=0.5,
    ),
    Rule(
        "event loop", "AclgradEventLoopBlocked", ":lag_p99",
        "99 of 100 beats of the loop are late by up to {span}",
        "give the process more CPU, or send smaller messages; --loop-alarm-ms 10 names what holds it", notes=0.2,
    ),
    Rule(
        "memory", "AclgradMemoryPressure", "aclgrad_memory_pressure",
        "memory is short: level {value:.0f} of 2, at which new calls are refused",
        "give the container more, or lower --pool-bytes and --max-message-bytes", fails=2, notes=1,
    ),
    Rule(
        "memory", "AclgradMemoryPressure", "aclgrad_memory_used_bytes",
        "the process uses {value_size} of the {limit_size} that it may use",
        "give the container more before it is short",
        notes=0.8, limit="aclgrad_memory_limit_bytes",
    ),
    _counter(
        "memory", "AclgradMemoryPressure", "aclgrad_memory_cuts_total", "unfinished calls were cut for want of memory",
        "give the container more, or fewer clients with large messages",
    ),
    Rule(
        "queue", "AclgradQueueFull", "aclgrad_waiting_calls", "{value:.0f} of at most {limit:.0f} calls wait",
        "add a replica or a device; bound each client by max_calls of its identity",
        fails=0.8, notes=0.5, limit="aclgrad_waiting_calls_limit",
    ),
    _counter(
        "queue", "AclgradQueueFull", "aclgrad_refused_rpcs_total", "calls found the queue full",
        "add a replica or a device, or raise --max-waiting-calls", cause="queue",
    ),
    _counter(
        "queue", "AclgradMemoryPressure", "aclgrad_refused_rpcs_total", "calls were refused for want of memory",
        "give the container more", cause="memory",
    ),
    Rule(
        "queue", "AclgradQueueFull", "aclgrad_memory_waiting_calls",
        "{value:.0f} calls wait for memory of device {device}",
        "raise --pool-bytes, or send smaller calls", notes=1,
    ),
    _counter(
        "pool", "AclgradPoolExhausted", "aclgrad_pool_out_of_memory_total",
        "allocations of device {device} found no memory",
        "lower --streams or raise --pool-bytes; who else uses the card?",
    ),
    Rule(
        "pool", "AclgradPoolExhausted", ":fragmented",
        "{value:.0%} of the free memory of device {device}'s pool is in small pieces",
        "large calls may fail; set --idle-trim-s, or --pool-keep-bytes to give memory back", notes=0.75,
    ),
    Rule(
        "pool", "AclgradPoolExhausted", "aclgrad_abandoned_calls",
        "device {device} still works on {value:.0f} calls that nobody waits for",
        "their clients have gone: give them longer deadlines, or look for a kernel that hangs", notes=1,
    ),
    Rule(
        "clients", "AclgradSlowClients", "aclgrad_reply_bytes",
        "replies of {value_size} wait to be fetched, of at most {limit_size}",
        "look for clients that do not read; they are cut after --client-timeout-s",
        notes=0.8, limit="aclgrad_reply_bytes_limit",
    ),
    _counter(
        "clients", "AclgradSlowClients", "aclgrad_slow_clients_total",
        "calls were cut because their client was too slow",
        "look at the network, or raise --client-timeout-s", fails=False,
    ),
    _counter(
        "clients", "", "aclgrad_refused_rpcs_total", "calls came from clients that had as many as they may have",
        "have them make fewer at once, or raise max_calls and max_waiting_calls of their identity", fails=False,
        cause="share",
    ),
    _counter(
        "clients", "AclgradIdentitiesRefused", "aclgrad_refused_rpcs_total",
        "calls came from callers that are not known, or lack the right",
        "find them in the log (refused): a token that was replaced, or somebody who guesses", fails=False,
        cause="identity",
    ),
    _counter(
        "faults", "AclgradErrorRate", ":faults", "calls ended with {reason}",
        "find them by the reason in the log, which has the cause",
    ),
    Rule(
        "certificate", "AclgradCertificateExpiring", "aclgrad_certificate_remaining_seconds",
        "the time until the certificate expires is {span}", "renew it: the server takes a new one without a restart",
        fails=_DAY_S, notes=14 * _DAY_S, is_below=True,
    ),
    Rule(
        "executor cache", "", ":cache_hits", "executors of device {device} were kept for {value:.0%} of the calls",
        "calls of ever new shapes cannot reuse them; give clients few shapes", notes=0.3, is_below=True,
    ),
    Rule(
        "executor cache", "", ":cache_off", "device {device} keeps no executors",
        "turn the cache on (--executor-cache on) once `aclgrad check` has passed with it", notes=1,
    ),
    _counter(
        "log", "AclgradLogLinesDropped", "aclgrad_log_lines_dropped_total", "log lines were dropped",
        "whatever reads standard error is too slow, or has stopped", fails=False,
    ),
    Rule(
        "files", "", "process_open_fds", "{value:.0f} of at most {limit:.0f} files are open",
        "raise the limit of open files, or have clients share connections",
        fails=0.95, notes=0.8, limit="process_max_fds",
    ),
)  # fmt: skip


def judge(rule: Rule, now: Scrape, before: Scrape) -> Iterator[Finding]:
    """Yields a finding for each sample of the rule's metric; `before` is what the server said a moment earlier."""
    limits, earlier = now.of(rule.limit), before.of(rule.metric, **rule.labels)
    for labels, value in now.of(rule.metric, **rule.labels).items():
        limit = limits.get(labels, limits.get(frozenset(), 0.0))
        if rule.limit and limit <= 0:
            continue
        growth = max(0.0, value - earlier.get(labels, 0.0))
        measure = value / limit if rule.limit else value
        verdict = Verdict.PASSED
        if _reaches(rule, growth if rule.is_counter else measure, rule.fails):
            verdict = Verdict.FAILED
        elif _reaches(rule, measure, rule.notes):
            verdict = Verdict.NOTED
        yield Finding(verdict, _told(rule, labels, value, limit, growth), {"value": value, "limit": limit or None})


def _reaches(rule: Rule, measure: float, bound: float | None) -> bool:
    return bound is not None and (measure < bound if rule.is_below else measure >= bound)


def _told(rule: Rule, labels: Labels, value: float, limit: float, growth: float) -> str:
    units = {"value_size": size(value), "limit_size": size(limit), "span": span(value)}
    found = rule.says.format(value=value, limit=limit, growth=growth, **units, **dict(labels))
    place = f" ({RUNBOOK}#{rule.alert.lower()})" if rule.alert else ""
    return f"{found}; {rule.remedy}{place}"
