"""The status follows the attributes of the server's parts, from before its device is open."""

import time

import pytest

from aclgrad_server.liveness import BEAT_LIMIT_S, Heartbeat
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings
from aclgrad_server.status.server_status import server_status
from tests.server.statistics.test_calls import Ended


def test_a_server_that_opens_its_device() -> None:
    status = server_status(ServerView(Settings(streams=8, acl_config="/a/file.json")), with_private=False)
    assert (status.not_ready_reason, status.product, len(status.devices)) == ("starting", "", 0)
    assert [(each.summary, each.serious) for each in status.problems] == [("not ready: starting", False)]
    assert dict(status.changed_settings) == {"streams": "8"}
    assert not status.HasField("uptime")
    assert not status.HasField("certificate_remaining")


def test_a_server_whose_main_loop_hangs() -> None:
    now_s = 100.0
    state = ServerView(Settings(), heartbeat=Heartbeat(lambda: now_s))
    state.readiness.change(None)
    assert server_status(state, with_private=True).not_ready_reason == ""
    now_s += BEAT_LIMIT_S + 2
    status = server_status(state, with_private=True)
    assert status.not_ready_reason == "the main loop has not run for 12 s (limit 10 s)"
    assert status.process.heartbeat_age.seconds == 12
    assert all(each.serious for each in status.problems)


def test_calls_by_operator_and_failures_by_reason() -> None:
    state = ServerView(Settings())
    for reason, count in (("OK", 5), ("CANCELLED", 2), ("SERVER_BUSY", 3)):
        for _ in range(count):
            state.calls.statistics.add(Ended("ExecuteOperator", "max_unpool2d_backward", reason))
    state.calls.statistics.add(Ended("ExecuteOperator", "<script>", "UNKNOWN_OPERATOR"))
    items = {("max_unpool2d_backward", "OK"): 7, ("max_unpool2d_backward", "INVALID_FIELD"): 1}
    state.calls.statistics.add(Ended("ExecuteProgram", "-", items=items))
    before = time.time()
    status = server_status(state, with_private=True)
    pool, unknown = status.operators
    assert (pool.name, pool.call_count, pool.failure_count) == ("max_unpool2d_backward", 18, 4)
    assert (unknown.name, unknown.call_count, unknown.failure_count) == ("unknown", 1, 1)
    assert pool.calls_per_second > 0
    # Within a factor of two, which is the width of a bucket.
    assert 2.5e6 <= pool.median_latency.nanos <= pool.p99_latency.nanos <= 10e6
    failures = {(each.reason, each.operator, each.method): each for each in status.recent_failures}
    assert {key: each.count for key, each in failures.items()} == {
        ("INVALID_FIELD", "max_unpool2d_backward", "ExecuteProgram"): 1,
        ("UNKNOWN_OPERATOR", "unknown", "ExecuteOperator"): 1,
        ("SERVER_BUSY", "max_unpool2d_backward", "ExecuteOperator"): 3,
    }
    assert all(each.recent_count == each.count for each in failures.values())
    assert next(iter(failures))[0] == "INVALID_FIELD"
    assert all(before - 60 < each.last_time.seconds <= before for each in failures.values())


def test_programs_and_their_steps() -> None:
    """One call of an operator, three programs of four steps each, of which one fails, and two that end as a whole."""
    state = ServerView(Settings())
    steps = {("max_unpool2d_backward", "OK"): 3, ("relu", "INVALID_FIELD"): 1}
    state.calls.statistics.add(Ended("ExecuteOperator", "max_unpool2d_backward"))
    for method in ("ExecuteProgram", "ExecuteProgram", "ExecuteProgramChunked"):
        state.calls.statistics.add(Ended(method, "program of 4", items=steps))
    for reason in ("SERVER_BUSY", "CANCELLED"):
        state.calls.statistics.add(Ended("ExecuteProgram", "-", reason))
    programs = server_status(state, with_private=True).programs
    assert (programs.program_count, programs.failure_count) == (5, 1)
    assert (programs.step_count, programs.failed_step_count) == (12, 3)
    assert programs.programs_per_second > 0
    assert 2.5e6 <= programs.median_latency.nanos <= programs.p99_latency.nanos <= 10e6


@pytest.mark.parametrize("jump_s", [-3600.0, 3600.0])
def test_clock_that_is_set_changes_neither_uptime_nor_what_is_recent(
    monkeypatch: pytest.MonkeyPatch, jump_s: float
) -> None:
    wall, now_s = time.time, time.monotonic()
    state = ServerView(Settings(), ready_at=wall() - 90, ready_since=now_s - 90)
    state.calls.statistics.add(Ended("ExecuteOperator", "max_unpool2d_backward", "SERVER_BUSY"))
    monkeypatch.setattr(time, "time", lambda: wall() + jump_s)
    status = server_status(state, with_private=True)
    assert 90 <= status.uptime.seconds <= 100
    (failure,) = status.recent_failures
    assert abs(time.time() - failure.last_time.seconds) < 10
    assert any("SERVER_BUSY in the last minute" in each.summary for each in status.problems)
