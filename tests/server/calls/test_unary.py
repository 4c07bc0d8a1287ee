"""Plans reach the right device with what they were admitted, and everything is given back in the end."""

import asyncio
import time
from dataclasses import replace

import pytest

from aclgrad.errors import DeadlinePassedError, LimitExceededError, ServerFaultError
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from aclgrad.tensors import Announced, TensorView, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.batch import run_calls
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.unary import run_plan
from aclgrad_server.devices.planning import OperatorPlan, Planner, plan_call
from aclgrad_server.limits import GROUP_S, WORK_PER_S
from tests.server.fakes import (
    NO_LIMIT,
    FakeContext,
    FakeDevice,
    Gate,
    begun,
    new_call,
    pooling_plan,
    raising,
    runner_of,
    settle,
    tensor,
)

MIB = 2**20


def occupied(runner: Runner) -> Occupancy:
    return runner.admission.occupancy()


async def test_reply_is_a_response_with_what_the_device_wrote() -> None:
    device, plan = FakeDevice(), pooling_plan(1, 2, 3)
    call = new_call()
    reply = await run_plan(runner_of(device), call, plan, ())
    (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
    assert (output.name, list(output.shape), output.data) == ("out", [1, 2, 3], b"\x01" * 24)
    assert device.executed == [(plan, call.deadline)]


async def test_call_without_elements_is_answered_with_an_empty_output() -> None:
    for shape in ((0, 4, 4), (2, 0, 4), (3, 4, 0)):
        reply = await run_plan(runner_of(FakeDevice()), new_call(), pooling_plan(*shape), ())
        (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
        assert (list(output.shape), output.data) == (list(shape), b"")
    # The output of an empty gradient has elements: zeros.
    inputs = (tensor("grad_output", 1, 0, 2, data=b""), tensor("self", 1, 2, 2))
    assert plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, MIB).is_empty
    assert not pooling_plan(1, 2, 2).is_empty


def announced_plan() -> OperatorPlan:
    inputs = (TensorView("grad_output", tensor("x", 1, 1, 1).type, Announced(0, 4)), tensor("self", 1, 2, 2))
    return plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, MIB)


async def test_reply_that_exceeds_the_message_limit_is_refused_before_it_is_computed() -> None:
    device = FakeDevice()
    runner = runner_of(device)
    with pytest.raises(LimitExceededError, match="--max-message-bytes"):
        await run_plan(runner, new_call(), pooling_plan(1, 512, 512), ())
    assert device.executed == []


async def test_bytes_of_a_reply_stay_admitted_until_it_has_left() -> None:
    gate, context, plan = Gate(), FakeContext(), pooling_plan(1, 2, 3)
    runner = runner_of(FakeDevice(0, gate))
    gone = FakeContext()
    tasks = [await begun(run_plan(runner, new_call(each), plan, ())) for each in (context, gone)]
    gone.end()
    gate.is_open.set()
    await asyncio.gather(*tasks)
    assert occupied(runner) == Occupancy(0, 0, plan.output_bytes), "nothing of the one whose client has gone"


async def test_cancelled_call_keeps_its_place_and_memory_until_the_device_is_done() -> None:
    """One that only waits for a place gives its memory back at once."""
    gate, context, plan = Gate(), FakeContext(), pooling_plan(1, 2, 3)
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    running = await begun(run_plan(runner, new_call(context), plan, ()))
    waiting = await begun(run_plan(runner, new_call(), pooling_plan(1, 9, 9), ()))
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
        await run_plan(runner, new_call(context), pooling_plan(1, 9, 9), ())


async def test_staged_call_holds_memory_at_once_and_a_place_only_to_run() -> None:
    gate, context, plan = Gate(), FakeContext(), announced_plan()
    runner = runner_of(FakeDevice(0, gate))
    call = new_call(context)
    async with runner.staged(call, plan, Announced, reply_bytes=16) as staged:
        assert occupied(runner) == Occupancy(0, 0, plan.size_bytes)
        writes = [(staged.inputs["grad_output"], 0, memoryview(b"abcd"))]
        running = await begun(runner.run(call, plan, (), staged, writes, [(staged.outputs[0], 0, b"out", 16)]))
        assert occupied(runner) == Occupancy(1, 0, plan.size_bytes)
        gate.is_open.set()
        assert await running == [b"out" + b"\x01" * 16]
    assert runner.device.contents == [[b"abcd", None]]
    assert occupied(runner) == Occupancy(0, 0, 16)


@pytest.mark.parametrize("error", [None, DeadlinePassedError("late")], ids=["call", "staging"])
async def test_memory_is_given_back_if_staging_or_the_call_fails(error: DeadlinePassedError | None) -> None:
    runner, context = runner_of(device := FakeDevice()), FakeContext()
    device.stage_error = error
    with pytest.raises(type(error) if error else ZeroDivisionError):
        async with runner.staged(new_call(context), announced_plan(), Announced, reply_bytes=16):
            raise ZeroDivisionError


async def test_batch_has_a_place_for_each_call_that_nobody_else_waits_for() -> None:
    gate, context = Gate(), FakeContext()
    runner = runner_of(FakeDevice(0, gate))
    plans = [pooling_plan(1, 2, 2), pooling_plan(1, 2, 3)]
    calls = [(plan, plan.contents(()), b"prefix") for plan in plans]
    task = await begun(run_calls(runner, new_call(context), calls))
    assert occupied(runner) == Occupancy(2, 0, sum(plan.size_bytes for plan in plans))
    gate.is_open.set()
    ((reply, errors),) = await task
    expected = [plan.outputs[0].reply_prefix + b"\x01" * plan.output_bytes for plan in plans]
    assert reply == b"".join(b"prefix" + each for each in expected)
    assert errors == [None, None]
    assert occupied(runner) == Occupancy(0, 0, 40)


def laborious(plan: OperatorPlan) -> OperatorPlan:
    """Returns the plan as one that takes as long as a whole group of a batch may."""
    return replace(plan, work=GROUP_S * WORK_PER_S)


async def test_others_run_between_the_groups_of_a_batch() -> None:
    """A batch of many seconds delays nobody by more than its group."""
    gate = Gate()
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    plan = laborious(pooling_plan(1, 2, 2))
    batch = await begun(run_calls(runner, new_call(), [(plan, plan.contents(()), b"")] * 3))
    assert gate.arrived == 1
    other = await begun(run_plan(runner, new_call(FakeContext(peer="ipv4:192.0.2.9:1")), pooling_plan(1, 1, 1), ()))
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
    plan = laborious(pooling_plan(1, 2, 2))
    batch = await begun(run_calls(runner, new_call(context), [(plan, plan.contents(()), b"")] * 3))
    batch.cancel()
    await settle()
    assert occupied(runner).running_bytes == plan.size_bytes, "the device still works on the first group"
    gate.is_open.set()


async def test_groups_that_come_too_late_have_a_status_each() -> None:
    runner = runner_of(FakeDevice(), running_limit=1)
    place = await runner.admission.slot("ipv4:192.0.2.9", is_small=True)
    plan = pooling_plan(1, 2, 2)
    call = new_call()
    call.deadline = time.monotonic() + 0.01
    ((_, errors),) = await run_calls(runner, call, [(plan, plan.contents(()), b"")] * 2)
    assert [type(error) for error in errors] == [DeadlinePassedError] * 2
    place.give_back()


def unpooling() -> OperatorPlan:
    """Returns the plan of a call whose indices are announced, and checked."""
    (typed,) = (each for each in first_cases(Product.ATLAS_A2) if each.spec.name == "max_unpool3d_backward")
    views = [view_of_array(*each) for each in typed.arrays().items()]
    inputs = [
        TensorView(each.name, each.type, Announced(0, each.type.size_bytes)) if each.name == "indices" else each
        for each in views
    ]
    return plan_call(OperatorCall(typed.spec.name, tuple(inputs), typed.case.attributes), Product.ATLAS_A2, NO_LIMIT)


@pytest.mark.parametrize("is_card", [True, False])
async def test_what_is_checked_is_charged_to_the_process_until_the_staging_ends(is_card: bool) -> None:
    plan, device = unpooling(), FakeDevice()
    (indices,) = (each for each in plan.inputs if each is not None and each.name == "indices")
    checked_bytes = indices.type.size_bytes
    admission = Admission(1, 16, 2**40, checked_limit=checked_bytes if is_card else None)
    runner = Runner(device, admission, Planner(Product.ATLAS_A2, NO_LIMIT), NO_LIMIT)
    for _ in range(2):
        async with runner.staged(new_call(), plan, Announced):
            on_device = plan.size_bytes if is_card else plan.size_bytes + checked_bytes
            assert admission.occupancy() == Occupancy(0, 0, on_device)
        await settle()
        # The second round would wait if anything of the process's memory were left.
        assert not device.staged
