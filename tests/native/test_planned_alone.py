"""An operator whose phase 1 is not safe in several threads is planned by one at a time."""

from collections.abc import Callable

import pytest

pytestmark = pytest.mark.once

PROGRAM = """
phase_1 = b"aclnnAdaptiveAvgPool2dBackwardGetWorkspaceSize"
device = open_device(steered=True, stream_limit=3)
alone = plan((1, 1, 1), (1, 2, 2), is_planned_alone=True)
steer.Hang(phase_1, 1, False)
tickets = [device.waiting.new_ticket() for _ in range(2)]
for ticket in tickets:
    device.native.submit(ticket, alone, contents, deadline(TIMEOUT_S))
wait_until(lambda: steer.Hanging(phase_1))
# When a third call has ended, the second has begun.
device.execute(call, contents)
print(steer.Calls(phase_1))
steer.Release()
for ticket in tickets:
    device.waiting.result(ticket)
print(steer.Calls(phase_1))
"""


def test_phase_1_waits_for_another_if_it_is_not_safe(run_program: Callable[..., list[str]]) -> None:
    assert run_program(PROGRAM) == ["2", "1"]
