"""A trace context is taken only as the W3C's text has it: https://www.w3.org/TR/trace-context/#traceparent-header."""

import pytest

from aclgrad_server.calls.trace import trace_id_of

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


@pytest.mark.parametrize(
    "value", [VALID, f"00-{TRACE}-{PARENT}-00", f"cc-{TRACE}-{PARENT}-01-what-comes", f"01{VALID[2:]}"]
)
def test_valid(value: str) -> None:
    assert trace_id_of([value]) == TRACE


@pytest.mark.parametrize(
    "values",
    [
        [],
        [VALID, VALID],
        [VALID.encode()],
        *(
            [value]
            for value in (
                "",
                VALID.upper(),
                f"{VALID}-more",
                f"{VALID} ",
                f"ff{VALID[2:]}",
                f"cc{VALID[2:]}.more",
                f"00-{'0' * 32}-{PARENT}-01",
                f"00-{TRACE}-{'0' * 16}-01",
                f"00-{TRACE[1:]}-{PARENT}-01",
                f"0-{TRACE}-{PARENT}-01",
                f"00-{TRACE}-{PARENT}",
                f"00_{TRACE}-{PARENT}-01",
                VALID + "\n",
            )
        ),
    ],
    ids=repr,
)
def test_invalid(values: list[str | bytes]) -> None:
    assert trace_id_of(values) == "-"
