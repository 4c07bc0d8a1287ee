"""What the doctor says of a running server's metrics, as Prometheus's text format has them."""

import re
from collections.abc import Iterator
from pathlib import Path

from aclgrad.check.rows import Finding, Verdict
from aclgrad_server.admin.metric_table import METRICS
from aclgrad_server.doctor.rules import RULES, RUNBOOK, judge
from aclgrad_server.doctor.scrape import Scrape
from aclgrad_server.supervisor.metrics import RESTARTS

SOUND = """
# TYPE aclgrad_calls counter
aclgrad_calls_total{operator="a",method="ExecuteOperator",reason="OK"} 1000
aclgrad_calls_total{operator="a",method="ExecuteOperator",reason="INVALID_FIELD"} 50
aclgrad_device_up{device="0"} 1
aclgrad_device_oldest_step_seconds{device="0"} 0.2
aclgrad_hang_timeout_seconds 60
aclgrad_device_sample_age_seconds{device="0"} 0.4
aclgrad_event_loop_heartbeat_age_seconds 0.03
# TYPE aclgrad_event_loop_lag_seconds histogram
aclgrad_event_loop_lag_seconds_bucket{le="0.001024"} 985
aclgrad_event_loop_lag_seconds_bucket{le="0.002048"} 995
aclgrad_event_loop_lag_seconds_bucket{le="0.524288"} 1000
aclgrad_event_loop_lag_seconds_bucket{le="+Inf"} 1000
aclgrad_event_loop_lag_seconds_sum 1
aclgrad_event_loop_lag_seconds_count 1000
aclgrad_memory_pressure 0
aclgrad_memory_used_bytes 3e8
aclgrad_memory_limit_bytes 1e9
aclgrad_memory_cuts_total 0
aclgrad_waiting_calls 3
aclgrad_waiting_calls_limit 64
aclgrad_refused_rpcs_total{cause="queue"} 0
aclgrad_refused_rpcs_total{cause="memory"} 0
aclgrad_refused_rpcs_total{cause="draining"} 9
aclgrad_refused_rpcs_total{cause="identity"} 0
aclgrad_refused_rpcs_total{cause="share"} 0
aclgrad_memory_waiting_calls{device="0"} 0
aclgrad_pool_out_of_memory_total{device="0"} 0
aclgrad_pool_reserved_bytes{device="0"} 1000
aclgrad_pool_allocated_bytes{device="0"} 200
aclgrad_pool_largest_free_bytes{device="0"} 600
aclgrad_pool_limit_bytes{device="0"} 1000
aclgrad_abandoned_calls{device="0"} 0
aclgrad_reply_bytes 0
aclgrad_reply_bytes_limit 2.68435456e+08
aclgrad_slow_clients_total 0
aclgrad_certificate_remaining_seconds 5e6
aclgrad_executor_cache_hits_total{device="0"} 900
aclgrad_executor_cache_misses_total{device="0"} 100
aclgrad_log_lines_dropped_total 0
process_open_fds 40
process_max_fds 2816
"""


def findings(text: str, before: str = SOUND) -> Iterator[tuple[str, Finding]]:
    now, earlier = (Scrape.by_worker(each)[""] for each in (text, before))
    for rule in RULES:
        for finding in judge(rule, now, earlier):
            if finding.verdict is not Verdict.PASSED:
                yield rule.topic, finding


def changed(line: str) -> str:
    """Returns the metrics of a sound server with another line for the same series."""
    series = line.rpartition(" ")[0]
    assert f"\n{series} " in SOUND
    return "".join(f"{line if old.startswith(f'{series} ') else old}\n" for old in SOUND.splitlines())


def test_a_sound_server_has_nothing_to_report() -> None:
    assert list(findings(SOUND)) == []


def test_every_rule_is_about_a_metric_that_a_server_has_and_leads_to_a_section_of_the_runbook() -> None:
    """The table that the server makes its page of is the reference, and process_* are Prometheus's own."""
    served = {*(row.name for row in METRICS), RESTARTS[0]}
    for rule in RULES:
        for name in filter(None, (rule.metric, rule.limit)):
            assert name.startswith((":", "process_")) or name in served, name
    page = Path(__file__).resolve().parents[3] / RUNBOOK
    headings = set(re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE))
    assert {rule.alert for rule in RULES if rule.alert} <= headings


F, N = Verdict.FAILED, Verdict.NOTED


WRONG = (
    ('aclgrad_device_up{device="0"} 0', "device", F, "device 0 is lost"),
    ('aclgrad_device_oldest_step_seconds{device="0"} 31', "device", F, "31.0 s, and after 60 s"),
    ('aclgrad_device_oldest_step_seconds{device="0"} 7', "device", N, "7.0 s, and after 60 s"),
    ('aclgrad_device_sample_age_seconds{device="0"} 12', "device", F, "12 s old"),
    ("aclgrad_event_loop_heartbeat_age_seconds 3", "event loop", F, "3.0 s"),
    ('aclgrad_event_loop_lag_seconds_bucket{le="0.002048"} 985', "event loop", N, "late by up to 524 ms"),
    ("aclgrad_memory_pressure 2", "memory", F, "level 2 of 2"),
    ("aclgrad_memory_pressure 1", "memory", N, "level 1 of 2"),
    ("aclgrad_memory_used_bytes 9e8", "memory", N, "858 MiB of the 954 MiB"),
    ("aclgrad_memory_cuts_total 4", "memory", F, "4 unfinished calls"),
    ("aclgrad_waiting_calls 64", "queue", F, "64 of at most 64 calls wait"),
    ('aclgrad_refused_rpcs_total{cause="queue"} 7', "queue", F, "7 calls found the queue full since the start, 7"),
    ('aclgrad_refused_rpcs_total{cause="identity"} 7', "clients", N, "not known"),
    ('aclgrad_refused_rpcs_total{cause="share"} 7', "clients", N, "as many as they may have"),
    ('aclgrad_pool_out_of_memory_total{device="0"} 2', "pool", F, "2 allocations of device 0"),
    ('aclgrad_pool_largest_free_bytes{device="0"} 80', "pool", N, "90% of the free memory of device 0's pool"),
    ('aclgrad_abandoned_calls{device="0"} 2', "pool", N, "still works on 2 calls"),
    ("aclgrad_reply_bytes 2.6e8", "clients", N, "wait to be fetched"),
    ("aclgrad_slow_clients_total 3", "clients", N, "3 calls were cut"),
    ("aclgrad_certificate_remaining_seconds 3600", "certificate", F, "is 1 h 0 min"),
    ("aclgrad_certificate_remaining_seconds 604800", "certificate", N, "is 7 d 0 h"),
    ('aclgrad_executor_cache_hits_total{device="0"} 10', "executor cache", N, "for 9% of the calls"),
    ("aclgrad_log_lines_dropped_total 5", "log", N, "5 log lines"),
    ("process_open_fds 2800", "files", F, "2800 of at most 2816"),
)


def test_one_thing_that_is_wrong() -> None:
    for line, topic, verdict, told in WRONG:
        ((found_topic, finding),) = findings(changed(line))
        assert (line, found_topic, finding.verdict) == (line, topic, verdict)
        assert told in finding.message
        assert "; " in finding.message


def test_what_happened_before_is_noted_and_what_happens_now_fails() -> None:
    faults = '\naclgrad_calls_total{operator="a",method="ExecuteOperator",reason="INTERNAL_ERROR"} '
    ((_, past),) = findings(f"{SOUND}{faults}3\n", f"{SOUND}{faults}3\n")
    ((topic, present),) = findings(f"{SOUND}{faults}5\n", f"{SOUND}{faults}3\n")
    assert (topic, past.verdict, present.verdict) == ("faults", Verdict.NOTED, Verdict.FAILED)
    assert present.message.startswith("5 calls ended with INTERNAL_ERROR since the start, 2 of them")


def test_a_cache_that_is_off_while_calls_run() -> None:
    off = changed('aclgrad_executor_cache_hits_total{device="0"} 0').replace(
        'misses_total{device="0"} 100', 'misses_total{device="0"} 0'
    )
    ((topic, finding),) = findings(off)
    assert topic == "executor cache"
    assert finding.message.startswith("device 0 keeps no executors; ")
