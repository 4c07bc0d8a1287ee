"""Groups of a program take turns with other calls, a failure is that of what needs it, and nothing stays in the end."""

import asyncio
import time
from typing import Any

import pytest

from aclgrad.errors import (
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    InputFailedError,
    LimitExceededError,
)
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import decode_results
from aclgrad_server.calls import scheduling
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.calls.outcome import Outcome
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.device import OnEnd
from aclgrad_server.devices.plan import StepPlan
from tests.server.fake_device import FakeDevice, Gate
from tests.server.fakes import FakeContext, begun, new_call, run_program, runner_of, settle
from tests.server.sent import call_of, output_of, pooling_call, pooling_plan, program_of, tanh_call, tensor

OTHER = "ipv4:192.0.2.9:1"
SMALL = pooling_call(1, 2, 2)
SMALL_BYTES = pooling_plan(1, 2, 2).size_bytes


@pytest.fixture
def a_group_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes as long as a whole group may."""
    monkeypatch.setattr(scheduling, "GROUP_S", -1.0)


def occupied(runner: Runner) -> Occupancy:
    return runner.admission.occupancy()


def after(step: int, count: int = 4) -> OperatorCall:
    """Returns a call that needs the output of an earlier step, which is the output of a call like it."""
    output = tensor("output", count, data=bytes(4 * count))
    return tanh_call(output_of(step, "grad_output", count, output="grad_input"), output)


def first(count: int = 4) -> OperatorCall:
    return tanh_call(
        tensor("grad_output", count, data=b"\x02" * 4 * count), tensor("output", count, data=bytes(4 * count))
    )


CHAIN = [first(), after(0), after(1), after(2), after(3)]
MIXED = [first(), after(0), SMALL, after(1), first(), after(4)]
"""Two chains and a step alone."""
NEEDING = {0: {1, 3}, 1: {3}, 2: set(), 3: set(), 4: {5}, 5: set()}


def outputs_of(outcome: Outcome) -> dict[int, bytes]:
    """Returns the outputs of the steps that succeeded."""
    found = {}
    for number, section in outcome.sections():
        if number not in outcome.failures:
            (result,) = decode_results(bytes(section))
            assert isinstance(result, tuple)
            found[number] = b"".join(bytes(each.data) for each in result if each.data is not None)
    return found


async def test_a_group_has_a_place_for_each_step_that_nobody_else_waits_for() -> None:
    gate, context = Gate(), FakeContext()
    runner = runner_of(FakeDevice(0, gate))
    request = program_of(pooling_call(1, 2, 2), pooling_call(1, 2, 3))
    task = await begun(run_program(runner, request, new_call(context)))
    plans = [pooling_plan(1, 2, width) for width in (2, 3)]
    assert occupied(runner) == Occupancy(2, 0, sum(plan.size_bytes for plan in plans))
    gate.is_open.set()
    outcome = await task
    assert outputs_of(outcome) == {0: b"\x01" * 16, 1: b"\x01" * 24}
    assert outcome.failures == {}
    assert occupied(runner) == Occupancy(0, 0, 40)


async def test_steps_of_a_chain_have_one_place() -> None:
    gate, context = Gate(), FakeContext()
    runner = runner_of(FakeDevice(0, gate))
    task = await begun(run_program(runner, program_of(*CHAIN), new_call(context)))
    assert occupied(runner).running == 1
    gate.is_open.set()
    assert len(outputs_of(await task)) == len(CHAIN)


@pytest.mark.usefixtures("a_group_each")
async def test_others_run_between_the_groups_of_a_program() -> None:
    """A program of many seconds delays nobody by more than its group."""
    gate = Gate()
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    program = await begun(run_program(runner, program_of(*[SMALL] * 3), new_call()))
    assert gate.arrived == 1
    other = await begun(run_program(runner, program_of(pooling_call(1, 1, 1)), new_call(FakeContext(peer=OTHER))))
    gate.is_open.set()
    await other
    assert gate.arrived < 4, "the other call came before the last step of the program"
    assert (await program).failures == {}
    assert occupied(runner) == Occupancy(0, 0, 3 * 16 + 4), "until the replies have left"


@pytest.mark.usefixtures("a_group_each")
@pytest.mark.parametrize("calls", [[SMALL] * 3, CHAIN, MIXED], ids=["independent", "chain", "mixed"])
@pytest.mark.parametrize("at", [0, 1, 2])
async def test_program_that_is_cancelled_gives_back_what_its_later_groups_claimed(
    calls: list[OperatorCall], at: int
) -> None:
    gate, context = Gate(), FakeContext()
    gate.is_open.set()
    device = FakeDevice(0, gate)
    runner = runner_of(device, running_limit=1)

    async def stop_at(plan: StepPlan) -> None:
        if len(device.executed) == at + 1:
            gate.is_open.clear()
        await gate(plan)

    device.behaviour = stop_at
    task = await begun(run_program(runner, program_of(*calls), new_call(context)))
    for _ in range(5):
        await settle()
    assert len(device.executed) == at + 1
    task.cancel()
    await settle()
    assert occupied(runner).running == 1, "what the device has begun goes on"
    assert occupied(runner).running_bytes > 0
    assert device.staged == {each for each in device.staged if each.open}
    gate.is_open.set()
    context.end()
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 0)
    assert not device.staged


@pytest.mark.usefixtures("a_group_each")
@pytest.mark.parametrize("late", [0, 1, 2, 3, 4, 5])
async def test_groups_that_come_too_late_have_a_status_each(late: int) -> None:
    """Those before are answered."""
    call, others = new_call(context := FakeContext()), []

    async def take_the_slot(plan: StepPlan) -> None:
        if len(device.executed) == late:
            others.append(asyncio.ensure_future(runner.admission.large.slot("ipv4:192.0.2.9")))
            call.deadline = time.monotonic() + 0.02

    device = FakeDevice(0, take_the_slot)
    runner = runner_of(device, running_limit=1)
    if not late:
        await take_the_slot(pooling_plan(1, 1, 1))
        await settle()
    outcome = await run_program(runner, program_of(*MIXED), call)
    assert sorted(outputs_of(outcome)) == list(range(late))
    assert sorted(outcome.failures) == list(range(late, len(MIXED)))
    # What needs a step that came too late has that as its failure.
    for number, error in outcome.failures.items():
        needs_late = any(number in NEEDING[each] for each in range(late, len(MIXED)))
        assert isinstance(error, InputFailedError if needs_late else DeadlinePassedError)
    for each in others:
        (await each).give_back()
    context.end()
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 0)


@pytest.mark.usefixtures("a_group_each")
@pytest.mark.parametrize("size", [1, 8], ids=["outputs", "inputs"])
async def test_the_message_is_counted_until_the_end_and_outputs_until_the_reply_has_left(size: int) -> None:
    """Of five groups with inputs of the message, and 16 bytes of the reply each. The largest to come is claimed."""
    counted = []

    async def note(plan: StepPlan) -> None:
        counted.append(occupied(runner).running_bytes)

    runner = runner_of(FakeDevice(0, note), running_limit=1)
    gradient = tensor("grad_output", 1, size, size, data=bytes(4 * size * size))
    call = call_of("adaptive_avg_pool2d_backward", gradient, tensor("self", 1, 2, 2))
    await run_program(runner, program_of(*[call] * 5), new_call())
    needs = [4 * size * size * 5 + 16 * (index + 1) for index in range(5)]
    assert counted == [max(needs[index:]) for index in range(5)]
    assert occupied(runner) == Occupancy(0, 0, 5 * 16), "until the reply has left"


@pytest.mark.usefixtures("a_group_each")
async def test_a_group_that_was_given_up_keeps_its_memory_while_later_ones_are_refused() -> None:
    """The device answers at the deadline, and works on: the memory is free when that ends."""

    class LateDevice(FakeDevice):
        async def execute_group(self, work: Any, deadline: float, streams: int, on_end: OnEnd, limits: Any) -> Any:
            ends.append(on_end)
            return b"", [DeadlinePassedError("late") for _ in work.steps]

    ends: list[OnEnd] = []
    runner, context = runner_of(LateDevice()), FakeContext()
    outcome = await run_program(runner, program_of(first(900), SMALL, after(0, 900)), new_call(context))
    assert [type(outcome.failures[each]) for each in range(3)] == [
        DeadlinePassedError, DeadlinePassedError, InputFailedError
    ]  # fmt: skip
    context.end()
    on_end_of_large, on_end_of_small = ends
    on_end_of_small()
    assert occupied(runner).running_bytes >= 3 * 3600, "the first one is still on the device"
    on_end_of_large()
    assert occupied(runner) == Occupancy(0, 0, 0)


@pytest.mark.parametrize("is_one_group", [True, False], ids=["one group", "a group each"])
@pytest.mark.parametrize("failing", range(6))
async def test_a_failure_is_that_of_its_step_and_of_what_needs_it(
    failing: int, is_one_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that need it name the step that failed first, and all others are answered."""
    monkeypatch.setattr(scheduling, "GROUP_S", 60.0 if is_one_group else -1.0)
    plans: list[StepPlan] = []

    async def fail(plan: StepPlan) -> None:
        plans.append(plan)
        if device.numbers[-1] == failing:
            raise DeviceMemoryError("full")

    class Numbering(FakeDevice):
        """Knows which step runs by its own gradient."""

        numbers: list[int]

        async def _execute(self, plan: StepPlan, contents: Any, deadline: float, workspace_limit: int) -> list[bytes]:
            (mark,) = {each for content in contents if content for each in content} & set(range(10, 16))
            self.numbers.append(mark - 10)
            return await super()._execute(plan, contents, deadline, workspace_limit)

    calls = []
    for number, call in enumerate(MIXED):
        name = "grad_output" if call is SMALL else "output"
        marked = [
            tensor(name, *each.type.shape, data=bytes([10 + number]) * each.type.size_bytes)
            if each.name == name
            else each
            for each in call.inputs
        ]
        calls.append(OperatorCall(call.operator, tuple(marked), {}))
    device = Numbering(0, fail)
    device.numbers = []
    runner, context = runner_of(device, running_limit=1), FakeContext()
    outcome = await run_program(runner, program_of(*calls), new_call(context))
    assert isinstance(outcome.failures.pop(failing), DeviceMemoryError)
    assert set(outcome.failures) == NEEDING[failing]
    for error in outcome.failures.values():
        assert isinstance(error, InputFailedError)
        assert error.metadata == {"step": str(failing)}
    assert set(outputs_of(outcome)) - {failing} == set(range(6)) - {failing} - NEEDING[failing]
    assert set(device.numbers) == set(range(6)) - NEEDING[failing], "what needs it does not run"
    context.end()
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 0)


@pytest.mark.usefixtures("a_group_each")
@pytest.mark.parametrize("by", ["admission", "device"])
@pytest.mark.parametrize("begun_count", [1, 2, 3])
async def test_a_device_that_is_lost_ends_the_program_and_leaves_nothing(begun_count: int, by: str) -> None:
    async def lose(plan: StepPlan) -> None:
        if len(device.executed) == begun_count:
            if by == "device":
                raise DeviceLostError("lost")
            runner.admission.lose(lambda: DeviceLostError("lost"))

    device = FakeDevice(0, lose)
    runner, context = runner_of(device, running_limit=1), FakeContext()
    with pytest.raises(DeviceLostError):
        await run_program(runner, program_of(*CHAIN), new_call(context))
    assert len(device.executed) == begun_count
    context.end()
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 0)


async def test_a_program_that_exceeds_a_bound_only_as_a_whole_is_refused_as_a_whole() -> None:
    """Each of its steps alone is within it."""
    device, call = FakeDevice(), pooling_call(1, 128, 256)
    size_bytes = pooling_plan(1, 128, 256).size_bytes
    runner = runner_of(device, bytes_limit=2 * size_bytes)
    assert not (await run_program(runner, program_of(call), new_call(FakeContext()))).failures
    with pytest.raises(LimitExceededError, match=f"takes {3 * size_bytes} bytes"):
        await run_program(runner, program_of(*[call] * 3), new_call())
    assert len(device.executed) == 1


@pytest.mark.parametrize("is_one_group", [True, False], ids=["one group", "a group each"])
async def test_a_program_whose_peak_is_beyond_what_a_call_may_take_is_told_its_peak(
    is_one_group: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduling, "GROUP_S", 60.0 if is_one_group else -1.0)
    request = program_of(*[pooling_call(1, 128, 256)] * 3)
    with pytest.raises(LimitExceededError, match="--max-call-bytes") as caught:
        await run_program(runner_of(FakeDevice(), max_call_bytes=1000), request, new_call())
    peak_bytes = int(caught.value.metadata["peak_bytes"])
    assert 3 * 4 * 128 * 256 < peak_bytes <= 3 * pooling_plan(1, 128, 256).size_bytes
    context = FakeContext()
    outcome = await run_program(runner_of(FakeDevice(), max_call_bytes=peak_bytes), request, new_call(context))
    assert not outcome.failures
    with pytest.raises(LimitExceededError):
        await run_program(runner_of(FakeDevice(), max_call_bytes=peak_bytes - 1), request, new_call())
