"""A trace context is taken only as the W3C's text has it: https://www.w3.org/TR/trace-context/#traceparent-header."""

from aclgrad_server.calls.call import trace_id_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"

GOOD = (VALID, f"00-{TRACE}-{PARENT}-00", f"01{VALID[2:]}", f"cc-{TRACE}-{PARENT}-01-what-comes")
BAD = (
    "",
    VALID.upper(),
    f"{VALID}-more",
    f"{VALID} ",
    f"{VALID}\n",
    f"ff{VALID[2:]}",
    f"cc{VALID[2:]}.more",
    f"00-{'0' * 32}-{PARENT}-01",
    f"00-{TRACE}-{'0' * 16}-01",
    f"00-{TRACE[1:]}-{PARENT}-01",
    f"0-{TRACE}-{PARENT}-01",
    f"00-{TRACE}-{PARENT}",
    f"00_{TRACE}-{PARENT}-01",
)


def test_a_valid_context() -> None:
    assert {value: trace_id_of([value]) for value in GOOD} == dict.fromkeys(GOOD, TRACE)


def test_no_context_or_one_that_is_not_valid_or_several() -> None:
    assert {value: trace_id_of([value]) for value in BAD} == dict.fromkeys(BAD, "-")
    assert [trace_id_of(values) for values in ([], [VALID, VALID], [VALID.encode()])] == ["-"] * 3
