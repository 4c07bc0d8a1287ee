"""The audit has a line for each identity that is refused, whatever they send."""

import logging

import pytest

from aclgrad_server.access.audit import MAX_CALLERS, WINDOW_S, Audit


def test_a_line_for_each_caller_and_reason_and_the_number_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    now = 0.0
    audit = Audit(lambda: now)

    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    for count in range(10_000):
        audit.refused("ipv4:192.0.2.1", "unknown", "no token", "ipv4:192.0.2.1:5", "ExecuteOperator", f"id-{count}")
    audit.refused("ipv4:192.0.2.1", "monitor", "no right", "ipv4:192.0.2.1:5", "ExecuteOperator", "other")
    assert told() == [
        "refused no token: identity unknown of ipv4:192.0.2.1:5, ExecuteOperator id-0",
        "refused no right: identity monitor of ipv4:192.0.2.1:5, ExecuteOperator other",
    ]
    now = WINDOW_S + 1
    audit.sweep()
    assert told() == ["refused no token: identity unknown of ipv4:192.0.2.1, 9999 more times"]


def test_an_attacker_with_many_addresses_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    audit = Audit(lambda: now)
    for number in range(10_000):
        audit.refused(f"ipv6:[2001:db8::{number:x}]", "unknown", "no token", "peer", "Method", "id")
    assert len(caplog.records) == MAX_CALLERS
    caplog.clear()
    now = WINDOW_S + 1
    audit.sweep()
    assert [record.getMessage() for record in caplog.records] == [
        f"refused {10_000 - MAX_CALLERS} calls of further callers"
    ]
    audit.refused("ipv4:192.0.2.1", "unknown", "no token", "peer", "Method", "id")
    assert len(caplog.records) == 2
