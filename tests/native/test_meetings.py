"""Calls that begin together: each on a thread of its own."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.once

TOGETHER = """
device = open_device(steered=True, stream_limit=4)
for count in (2, 4):
    meeting = aclgrad_native.Meeting(count)
    tickets = [device.waiting.new_ticket() for _ in range(count)]
    for ticket in tickets:
        device.native.submit(ticket, call, contents, deadline(TIMEOUT_S), meeting=meeting)
    print({len(device.waiting.result(ticket)) for ticket in tickets}, steer.Planners())
for _ in range(20):
    device.execute(call, contents)
print(steer.Planners())
"""


def test_as_many_calls_as_there_are_threads_run_on_all(run_program: Callable[..., list[str]]) -> None:
    assert run_program(TOGETHER) == ["{16} 2", "{16} 4", "4"]


ALONE = """
device = open_device(stream_limit=4)
try:
    device.waiting.call(device.native.submit, call, contents, deadline(0.1), None, None, aclgrad_native.Meeting(2))
except AclError as error:
    print(error.fault, error.detail)
print(len(device.execute(call, contents)))
"""


def test_a_call_whose_meeting_is_never_complete_does_not_begin(run_program: Callable[..., list[str]]) -> None:
    assert run_program(ALONE) == ["not_begun 1 of its kind did not begin in time", "16"]
