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
        "refused no token: identity unknown of ipv4:192.0.2.1:5, id-0 ExecuteOperator",
        "refused no right: identity monitor of ipv4:192.0.2.1:5, other ExecuteOperator",
    ]
    now = WINDOW_S + 1
    audit.sweep()
    assert told() == ["refused no token: identity unknown of ipv4:192.0.2.1, 9999 more times"]
    for number in range(2 * MAX_CALLERS):
        audit.refused(f"address {number}", "unknown", "no token", "peer", "Method", "id")
    assert len(told()) == 2 * MAX_CALLERS
