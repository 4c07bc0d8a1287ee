"""Programs reach the device with what they were admitted, and everything is given back in the end."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from aclgrad.errors import (
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    LimitExceededError,
    ServerFaultError,
)
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from aclgrad.sources import InChunks
from aclgrad.tensors import TensorView, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.runner import Runner, Step
from aclgrad_server.devices.device import OnEnd, Read, Write
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from aclgrad_server.devices.planning import Planner
from aclgrad_server.limits import GROUP_S
from tests.server.fake_device import FakeDevice, Gate, raising
from tests.server.fakes import NO_TRANSFER, FakeContext, begun, new_call, runner_of, settle
from tests.server.sent import NO_LIMIT, pooling_call, pooling_plan, pooling_step, step_of, tensor

MIB = 2**20


def occupied(runner: Runner) -> Occupancy:
    return runner.admission.occupancy()


async def test_reply_is_a_response_with_what_the_device_wrote() -> None:
    device, step = FakeDevice(), pooling_step(1, 2, 3)
    call = new_call()
    reply = await runner_of(device).run_step(call, step)
    (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
    assert (output.name, list(output.shape), output.data) == ("out", [1, 2, 3], b"\x01" * 24)
    assert device.executed == [(step.planned.plan, call.deadline)]


async def test_call_without_elements_is_answered_with_an_empty_output() -> None:
    for shape in ((0, 4, 4), (2, 0, 4), (3, 4, 0)):
        reply = await runner_of(FakeDevice()).run_step(new_call(), pooling_step(*shape))
        (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
        assert (list(output.shape), output.data) == (list(shape), b"")
    # The output of an empty gradient has elements: zeros.
    inputs = (tensor("grad_output", 1, 0, 2, data=b""), tensor("self", 1, 2, 2))
    assert plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, Limits(MIB)).is_empty
    assert not pooling_plan(1, 2, 2).is_empty


async def test_reply_that_exceeds_the_message_limit_is_refused_before_it_is_computed() -> None:
    device, request = FakeDevice(), encode_request(pooling_call(1, 512, 512))
    with pytest.raises(LimitExceededError, match="--max-message-bytes"):
        await runner_of(device).execute(NO_TRANSFER, request, new_call())
    assert device.executed == []


async def test_bytes_of_a_reply_stay_admitted_until_it_has_left() -> None:
    gate, context, step = Gate(), FakeContext(), pooling_step(1, 2, 3)
    plan = step.planned.plan
    runner = runner_of(FakeDevice(0, gate))
    gone = FakeContext()
    tasks = [await begun(runner.run_step(new_call(each), step)) for each in (context, gone)]
    gone.end()
    gate.is_open.set()
    await asyncio.gather(*tasks)
    assert occupied(runner) == Occupancy(0, 0, plan.output_bytes), "nothing of the one whose client has gone"


async def test_cancelled_call_keeps_its_slot_and_memory_until_the_device_is_done() -> None:
    """One that only waits for a slot gives its memory back at once."""
    gate, context, step = Gate(), FakeContext(), pooling_step(1, 2, 3)
    plan = step.planned.plan
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    running = await begun(runner.run_step(new_call(context), step))
    waiting = await begun(runner.run_step(new_call(), pooling_step(1, 9, 9)))
    assert occupied(runner).waiting == 1
    for task in (waiting, running):
        task.cancel()
    context.end()
    await settle()
    assert running.cancelled()
    assert occupied(runner) == Occupancy(1, 0, plan.size_bytes)
    gate.is_open.set()


@pytest.mark.parametrize("error", [ServerFaultError("failed"), ZeroDivisionError()], ids=repr)
async def test_failure_of_a_device_frees_the_place_and_the_bytes(error: Exception) -> None:
    context = FakeContext()
    runner = runner_of(FakeDevice(0, raising(error)))
    with pytest.raises(type(error)):
        await runner.run_step(new_call(context), pooling_step(1, 9, 9))


class Way:
    """A transfer that brings what it is given, and takes what the step wrote."""

    def __init__(self, content: bytes = b"", error: Exception | None = None) -> None:
        self.content, self.error = content, error
        self.brought = asyncio.Event()
        self.may_run = asyncio.Event()

    async def bring(self, inputs: Mapping[str, Any]) -> Sequence[Write]:
        self.brought.set()
        await self.may_run.wait()
        if self.error is not None:
            raise self.error
        return [(each, 0, memoryview(self.content)) for each in inputs.values()]

    def reads(self, outputs: Sequence[Any]) -> Sequence[Read]:
        return [(each, 0, b"out", each.size_bytes) for each in outputs]

    async def take(self, outputs: Sequence[Any], messages: list[bytes]) -> bytes:
        return b"".join(messages)


def step_beside() -> Step:
    inputs = TensorView("grad_output", tensor("x", 1, 1, 1).type, InChunks(0, 4)), tensor("self", 1, 2, 2)
    return step_of(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}))


async def test_a_step_with_tensors_beside_the_message_holds_memory_at_once_and_a_slot_only_to_run() -> None:
    gate, context, step, way = Gate(), FakeContext(), step_beside(), Way(b"abcd")
    runner, size_bytes = runner_of(FakeDevice(0, gate)), step.planned.plan.size_bytes
    running = await begun(runner.run_beside(new_call(context), step, way, 0))
    assert occupied(runner) == Occupancy(0, 0, size_bytes)
    way.may_run.set()
    await settle()
    assert occupied(runner) == Occupancy(1, 0, size_bytes)
    gate.is_open.set()
    assert await running == b"out" + b"\x01" * 16
    assert runner.device.contents == [[b"abcd", None]]
    assert occupied(runner) == Occupancy(0, 0, 16)


@pytest.mark.parametrize("error", [None, DeadlinePassedError("late")], ids=["transfer", "staging"])
async def test_memory_is_given_back_if_staging_or_the_transfer_fails(error: DeadlinePassedError | None) -> None:
    runner, way = runner_of(device := FakeDevice()), Way(error=ZeroDivisionError())
    device.stage_error = error
    way.may_run.set()
    with pytest.raises(type(error) if error else ZeroDivisionError):
        await runner.run_beside(new_call(), step_beside(), way, 0)
    assert occupied(runner) == Occupancy(0, 0, 0)


async def test_batch_has_a_place_for_each_call_that_nobody_else_waits_for() -> None:
    gate, context = Gate(), FakeContext()
    runner = runner_of(FakeDevice(0, gate))
    steps = [pooling_step(1, 2, width, prefix=b"prefix") for width in (2, 3)]
    plans = [step.planned.plan for step in steps]
    task = await begun(runner.run_all(new_call(context), steps))
    assert occupied(runner) == Occupancy(2, 0, sum(plan.size_bytes for plan in plans))
    gate.is_open.set()
    ((reply, errors),) = await task
    expected = [plan.outputs[0].reply_prefix + b"\x01" * plan.output_bytes for plan in plans]
    assert reply == b"".join(b"prefix" + each for each in expected)
    assert errors == [None, None]
    assert occupied(runner) == Occupancy(0, 0, 40)


def laborious(step: Step) -> Step:
    """Returns the step as one that takes as long as a whole group may."""
    planned = step.planned
    return Step(replace(planned, plan=replace(planned.plan, seconds=GROUP_S)), step.payloads, step.prefix)


async def test_others_run_between_the_groups_of_a_batch() -> None:
    """A batch of many seconds delays nobody by more than its group."""
    gate = Gate()
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    step = laborious(pooling_step(1, 2, 2))
    plan = step.planned.plan
    batch = await begun(runner.run_all(new_call(), [step] * 3))
    assert gate.arrived == 1
    other = await begun(runner.run_step(new_call(FakeContext(peer="ipv4:192.0.2.9:1")), pooling_step(1, 1, 1)))
    gate.is_open.set()
    await other
    assert gate.arrived < 4, "the other call came before the last one of the batch"
    ran = await batch
    assert [errors for _, errors in ran] == [[None]] * 3
    outputs = 3 * plan.output_bytes + 4
    assert occupied(runner) == Occupancy(0, 0, outputs), "until the replies have left"


async def test_batch_that_is_cancelled_gives_back_what_its_later_groups_claimed() -> None:
    gate, context = Gate(), FakeContext()
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    step = laborious(pooling_step(1, 2, 2))
    plan = step.planned.plan
    batch = await begun(runner.run_all(new_call(context), [step] * 3))
    batch.cancel()
    await settle()
    assert occupied(runner).running_bytes == plan.size_bytes + 2 * 4, "what the first group has, and its message"
    gate.is_open.set()


async def test_groups_that_come_too_late_have_a_status_each() -> None:
    runner = runner_of(FakeDevice(), running_limit=1)
    slot = await runner.admission.small.slot("ipv4:192.0.2.9")
    call = new_call()
    call.deadline = time.monotonic() + 0.01
    ((_, errors),) = await runner.run_all(call, [pooling_step(1, 2, 2)] * 2)
    assert [type(error) for error in errors] == [DeadlinePassedError] * 2
    slot.give_back()


def unpooling() -> Step:
    """Returns a step whose indices come in chunks, and are checked."""
    (typed,) = (each for each in first_cases(Product.ATLAS_A2) if each.spec.name == "max_unpool3d_backward")
    views = [view_of_array(*each) for each in typed.arrays().items()]
    inputs = [
        TensorView(each.name, each.type, InChunks(0, each.type.size_bytes)) if each.name == "indices" else each
        for each in views
    ]
    return step_of(OperatorCall(typed.spec.name, tuple(inputs), typed.case.attributes))


@pytest.mark.parametrize("is_card", [True, False])
async def test_what_is_checked_is_charged_to_the_process_until_its_memory_is_free(is_card: bool) -> None:
    step, device = unpooling(), FakeDevice()
    plan, checked_bytes = step.planned.plan, step.planned.checked_bytes
    assert checked_bytes
    admission = Admission(1, 16, 2**40, checked_limit=checked_bytes if is_card else None)
    runner = Runner(device, admission, Planner(Product.ATLAS_A2, Limits(NO_LIMIT)), NO_LIMIT)
    for _ in range(2):
        way, context = Way(), FakeContext()
        running = await begun(runner.run_beside(new_call(context), step, way, 0))
        on_device = plan.size_bytes if is_card else plan.size_bytes + checked_bytes
        assert admission.occupancy() == Occupancy(0, 0, on_device)
        way.may_run.set()
        await running
        context.end()
        await settle()
        # The second round would wait if anything of the process's memory were left.
        assert not device.staged


async def test_inputs_are_counted_until_their_group_has_ended_and_other_tensors_while_it_runs() -> None:
    """Five groups with 4 bytes of the message, 16 of the reply, and 1024 of a shape that the device may read."""
    gate = Gate()
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    call = OperatorCall("adaptive_avg_pool2d_backward", pooling_call(1, 2, 2).inputs, {})
    plan = replace(plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT)), size_bytes=4 + 16 + 1024)
    step, context = laborious(step_of(call, plan=plan)), FakeContext()
    batch = await begun(runner.run_all(new_call(context), [step] * 5))
    assert occupied(runner).running_bytes == 4 + 5 * 16 + 1024, "what the last group needs is the most"
    gate.is_open.set()
    await batch
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 5 * 16), "until the reply has left"


async def test_a_group_that_was_given_up_keeps_its_memory_while_later_ones_are_refused() -> None:
    """The device answers at the deadline, and works on: the memory is free when that ends."""

    class LateDevice(FakeDevice):
        async def execute_all(self, calls: Any, deadline: float, streams: int, on_end: OnEnd, limits: Any = ()) -> Any:
            ends.append(on_end)
            return b"", [DeadlinePassedError("late") for _ in calls]

    ends: list[OnEnd] = []
    runner, context = runner_of(LateDevice()), FakeContext()
    inputs = tensor("grad_output", 900, data=bytes(3600)), tensor("output", 900, data=bytes(3600))
    large, small = laborious(step_of(OperatorCall("tanh_backward", inputs, {}))), laborious(pooling_step(1, 2, 2))
    await runner.run_all(new_call(context), [large, small])
    context.end()
    on_end_of_large, on_end_of_small = ends
    on_end_of_small()
    size_bytes = large.planned.plan.size_bytes
    assert occupied(runner).running_bytes >= size_bytes, "the first one is still on the device"
    on_end_of_large()
    assert occupied(runner) == Occupancy(0, 0, 0)


@pytest.mark.parametrize("failing", [1, 3, 5])
async def test_a_step_that_fails_first_in_the_middle_or_last_is_alone(failing: int) -> None:
    async def fail_once(plan: StepPlan) -> None:
        if len(device.executed) == failing:
            raise DeviceMemoryError("full")

    device = FakeDevice(0, fail_once)
    runner, context = runner_of(device, running_limit=1), FakeContext()
    ran = await runner.run_all(new_call(context), [laborious(pooling_step(1, 2, 2))] * 5)
    assert [number for number, (_, errors) in enumerate(ran, 1) if errors != [None]] == [failing]
    context.end()
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 0)


@pytest.mark.parametrize("begun_count", [1, 2, 3])
async def test_a_device_that_is_lost_between_groups_ends_the_program_and_leaves_nothing(begun_count: int) -> None:
    async def lose(plan: StepPlan) -> None:
        if len(device.executed) == begun_count:
            runner.admission.lose(lambda: DeviceLostError("lost"))

    device = FakeDevice(0, lose)
    runner, context = runner_of(device, running_limit=1), FakeContext()
    with pytest.raises(DeviceLostError):
        await runner.run_all(new_call(context), [laborious(pooling_step(1, 2, 2))] * 4)
    assert len(device.executed) == begun_count
    context.end()
    await settle()
    assert occupied(runner) == Occupancy(0, 0, 0)


async def test_a_program_that_exceeds_a_bound_only_as_a_whole_is_refused_as_a_whole() -> None:
    """Each of its steps alone is within it."""
    device, step = FakeDevice(), pooling_step(1, 128, 256)
    size_bytes = step.planned.plan.size_bytes
    runner = Runner(device, Admission(4, 4, 2 * size_bytes), Planner(Product.ATLAS_A2, Limits(NO_LIMIT)), NO_LIMIT)
    assert len(await runner.run_all(new_call(FakeContext()), [step])) == 1
    with pytest.raises(LimitExceededError, match=f"takes {3 * size_bytes} bytes"):
        await runner.run_all(new_call(), [step] * 3)
    assert len(device.executed) == 1
