"""Lanes claim the largest workspace of their steps, those that run at once have one each, and groups share theirs."""

from collections.abc import Callable

import pytest

from aclgrad.errors import InputFailedError, LimitExceededError, ServerBusyError
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.devices.plan import StepPlan
from tests.server.fake_device import FakeDevice
from tests.server.fakes import claim_memory
from tests.server.sent import call_of, output_of, pooling_call, tanh_call, tensor

from .test_workspaces import CALL, SHAPE, TENSORS, WORKSPACE, device_of, results_of, runner_of

COUNT = 20_000
SIZE = 4 * COUNT


async def test_steps_of_a_program_have_their_own_statuses_and_share_what_runs_at_once() -> None:
    """On two streams: two workspaces at once, not five."""
    device = FakeDevice()
    device.workspace_of = lambda plan: WORKSPACE if plan.output_bytes > 4 else 0
    small = pooling_call(1, 1, 1)
    runner = runner_of(device, 5 * (TENSORS + 8) + 2 * WORKSPACE, streams=2)
    other = await claim_memory(runner.admission, "another", 1)
    for is_free in (False, True):
        assert [isinstance(each, tuple) for each in await results_of(runner, *[CALL, small] * 5)] == [
            is_free,
            True,
        ] * 5
        other.give_back()


async def test_groups_of_a_program_share_one_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group begins when the one before has ended, so a program that was answered once is answered again."""
    monkeypatch.setattr("aclgrad_server.calls.scheduling.GROUP_S", -1.0)
    runner = runner_of(device_of(WORKSPACE), 3 * TENSORS + WORKSPACE)
    for _ in range(3):
        assert [type(each) for each in await results_of(runner, *[CALL] * 3)] == [tuple] * 3
        assert runner.admission.occupancy() == Occupancy(0, 0, 0)


async def test_a_workspace_that_no_call_may_have_fails_its_own_step_alone() -> None:
    device, small = FakeDevice(), pooling_call(*SHAPE[:-1], 128)
    device.workspace_of = lambda plan: 8 if plan.size_bytes < TENSORS else 10**9
    runner = runner_of(device, 10**8)
    for _ in range(2):
        assert [type(each) for each in await results_of(runner, CALL, small)] == [LimitExceededError, tuple]
        assert runner.admission.occupancy() == Occupancy(0, 0, 0)


def by_operator(**workspaces: int) -> Callable[[StepPlan], int]:
    return lambda plan: workspaces[plan.spec.name.partition("_")[0]]


def chain() -> list[OperatorCall]:
    """Returns three steps on one stream, each of another operator."""
    output = tensor("output", COUNT, data=bytes(SIZE))
    return [
        tanh_call(tensor("grad_output", COUNT, data=bytes(SIZE)), output),
        call_of("sigmoid_backward", output_of(0, "grad_output", COUNT, output="grad_input"), output),
        call_of("softmax_backward", output_of(1, "grad_output", COUNT, output="grad_input"), output, dim=0),
    ]


async def test_a_lane_has_the_largest_workspace_of_its_steps() -> None:
    device, used = FakeDevice(), []
    device.workspace_of = by_operator(tanh=10_000, sigmoid=50_000, softmax=30_000)
    runner = runner_of(device, 2**30)

    async def note(plan: StepPlan) -> None:
        used.append((plan.spec.name, runner.admission.large.memory.used))

    device.behaviour = note
    assert [type(each) for each in await results_of(runner, *chain())] == [tuple] * 3
    names = [name for name, _ in used]
    # The first attempt ends with the first step, the second one with the second.
    assert names == ["tanh_backward", "tanh_backward", "sigmoid_backward", "softmax_backward"]
    used.clear()
    assert [type(each) for each in await results_of(runner, *chain())] == [tuple] * 3
    assert len(used) == 3, "it is known from the beginning"
    assert len({claimed for _, claimed in used}) == 1
    # Four tensors of the message, two places, and one output after the other in the reply.
    assert 4 * SIZE + 3 * SIZE + 50_000 <= used[0][1] <= 4 * SIZE + 6 * SIZE + 50_000


async def test_a_lane_whose_workspace_is_not_free_leaves_other_lanes_their_results() -> None:
    device = FakeDevice()
    device.workspace_of = by_operator(tanh=0, sigmoid=10**6, softmax=0, adaptive=0)
    tensors = 4 * SIZE + 6 * SIZE + TENSORS
    runner = runner_of(device, tensors + 10**6)
    other = await claim_memory(runner.admission, "another", 900_000)
    first, busy, needing, alone = await results_of(runner, *chain(), CALL)
    assert [type(each) for each in (first, alone)] == [tuple] * 2
    assert isinstance(busy, ServerBusyError)
    assert isinstance(needing, InputFailedError)
    assert needing.metadata == {"step": "1"}
    other.give_back()
    assert [type(each) for each in await results_of(runner, *chain(), CALL)] == [tuple] * 4


@pytest.mark.parametrize(("streams", "at_once"), [(1, 1), (2, 2), (4, 3)])
async def test_lanes_that_run_at_once_have_a_workspace_each(streams: int, at_once: int) -> None:
    device, used = device_of(WORKSPACE), []
    runner = runner_of(device, 2**30, streams)

    async def note(plan: StepPlan) -> None:
        used.append(runner.admission.large.memory.used)

    device.behaviour = note
    for _ in range(2):
        used.clear()
        assert [type(each) for each in await results_of(runner, *[CALL] * 3)] == [tuple] * 3
    assert set(used) == {3 * TENSORS + at_once * WORKSPACE}
