"""The audit has a line for each identity that is refused, whatever they send."""

from aclgrad_server.access.access import MAX_CALLERS, WINDOW_S, FirstRefusals


def test_a_line_for_each_caller_and_reason_in_a_window_and_no_flood_of_addresses() -> None:
    now = 0.0
    passes = FirstRefusals(lambda: now).take
    one = ("ipv4:192.0.2.1", "unknown", "no token")
    assert [passes(*one) for _ in range(10_000)] == [True] + [False] * 9_999
    assert passes("ipv4:192.0.2.1", "monitor", "no right")
    assert passes("ipv4:192.0.2.1", "unknown", "the token is not known")
    flood = [passes(f"ipv6:[2001:db8::{number:x}]", "unknown", "no token") for number in range(10_000)]
    assert sum(flood) == MAX_CALLERS - 3
    now = WINDOW_S
    assert passes(*one)
