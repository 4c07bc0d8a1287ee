"""The audit has a line for each identity that is refused, whatever they send."""

import logging
from collections.abc import Callable, Iterator

import pytest

from aclgrad_server.access.audit import MAX_CALLERS, WINDOW_S, RepeatedRefusals, log

Filtered = Callable[[Callable[[], float]], RepeatedRefusals]


@pytest.fixture
def filtered() -> Iterator[Filtered]:
    """Gives the logger of the audit a filter with a clock; the filter of a server that ended may be there still."""
    before = log.filters[:]

    def make(clock: Callable[[], float]) -> RepeatedRefusals:
        log.filters[:] = [made := RepeatedRefusals(clock)]
        return made

    yield make
    log.filters[:] = before


def refuse(address: str, identity: str, why: str, peer: str, method: str, request_id: str) -> None:
    log.warning(
        "refused %s: identity %s of %s, %s %s",
        *(why, identity, peer, method, request_id),
        extra={"caller": (address, identity, why)},
    )


def test_a_line_for_each_caller_and_reason_and_the_number_of_the_others(
    caplog: pytest.LogCaptureFixture, filtered: Filtered
) -> None:
    caplog.set_level(logging.WARNING)
    now = 0.0
    audit = filtered(lambda: now)

    def told() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    for count in range(10_000):
        refuse("ipv4:192.0.2.1", "unknown", "no token", "ipv4:192.0.2.1:5", "ExecuteOperator", f"id-{count}")
    refuse("ipv4:192.0.2.1", "monitor", "no right", "ipv4:192.0.2.1:5", "ExecuteOperator", "other")
    assert told() == [
        "refused no token: identity unknown of ipv4:192.0.2.1:5, ExecuteOperator id-0",
        "refused no right: identity monitor of ipv4:192.0.2.1:5, ExecuteOperator other",
    ]
    now = WINDOW_S + 1
    audit.sweep()
    assert told() == ["refused no token: identity unknown of ipv4:192.0.2.1, 9999 more times"]


def test_an_attacker_with_many_addresses_fills_no_log(caplog: pytest.LogCaptureFixture, filtered: Filtered) -> None:
    now = 0.0
    audit = filtered(lambda: now)
    for number in range(10_000):
        refuse(f"ipv6:[2001:db8::{number:x}]", "unknown", "no token", "peer", "Method", "id")
    assert len(caplog.records) == MAX_CALLERS
    caplog.clear()
    now = WINDOW_S + 1
    audit.sweep()
    assert [record.getMessage() for record in caplog.records] == [
        f"refused {10_000 - MAX_CALLERS} calls of further callers"
    ]
    refuse("ipv4:192.0.2.1", "unknown", "no token", "peer", "Method", "id")
    assert len(caplog.records) == 2
