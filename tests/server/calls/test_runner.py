"""One step runs when it has its slot and its memory, and everything is given back in the end."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aclgrad.errors import (
    DeadlinePassedError,
    DeviceLostError,
    InvalidFieldError,
    LimitExceededError,
    ServerFaultError,
)
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView, view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.plan import Limits, plan_call
from tests.server.fake_device import FakeDevice, FakeTensor, Gate, raising
from tests.server.fakes import FakeContext, begun, new_call, runner_of, settle
from tests.server.sent import pooling_call, pooling_plan, step_of, tensor

MIB = 2**20


def occupied(runner: Runner) -> Occupancy:
    return runner.admission.occupancy()


async def test_reply_is_a_response_with_what_the_device_wrote() -> None:
    device, step = FakeDevice(), step_of(pooling_call(1, 2, 3))
    call = new_call()
    reply = await runner_of(device).run_step(call, step, ())
    (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
    assert (output.name, list(output.shape), output.data) == ("out", [1, 2, 3], b"\x01" * 24)
    assert device.executed == [(step.plan, call.deadline)]


async def test_call_without_elements_is_answered_with_an_empty_output() -> None:
    for shape in ((0, 4, 4), (2, 0, 4), (3, 4, 0)):
        reply = await runner_of(FakeDevice()).run_step(new_call(), step_of(pooling_call(*shape)), ())
        (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
        assert (list(output.shape), output.data) == (list(shape), b"")
    # The output of an empty gradient has elements: zeros.
    inputs = (tensor("grad_output", 1, 0, 2, data=b""), tensor("self", 1, 2, 2))
    assert plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, Limits(MIB)).is_empty
    assert not pooling_plan(1, 2, 2).is_empty


async def test_reply_that_exceeds_the_message_limit_is_refused_before_it_is_computed() -> None:
    device, request = FakeDevice(), encode_request(pooling_call(1, 512, 512))
    with pytest.raises(LimitExceededError, match="--max-message-bytes"):
        await runner_of(device).execute(request, new_call())
    assert device.executed == []


async def test_bytes_of_a_reply_stay_admitted_until_it_has_left() -> None:
    gate, context, step = Gate(), FakeContext(), step_of(pooling_call(1, 2, 3))
    runner = runner_of(FakeDevice(0, gate))
    gone = FakeContext()
    tasks = [await begun(runner.run_step(new_call(each), step, ())) for each in (context, gone)]
    gone.end()
    gate.is_open.set()
    await asyncio.gather(*tasks)
    assert occupied(runner) == Occupancy(0, 0, step.plan.output_bytes), "nothing of the one whose client has gone"


async def test_cancelled_call_keeps_its_slot_and_memory_until_the_device_is_done() -> None:
    """One that only waits for a slot gives its memory back at once."""
    gate, context, step = Gate(), FakeContext(), step_of(pooling_call(1, 2, 3))
    runner = runner_of(FakeDevice(0, gate), running_limit=1)
    running = await begun(runner.run_step(new_call(context), step, ()))
    waiting = await begun(runner.run_step(new_call(), step_of(pooling_call(1, 9, 9)), ()))
    assert occupied(runner).waiting == 1
    for task in (waiting, running):
        task.cancel()
    context.end()
    await settle()
    assert running.cancelled()
    assert occupied(runner) == Occupancy(1, 0, step.plan.size_bytes)
    gate.is_open.set()


@pytest.mark.parametrize("error", [ServerFaultError("failed"), ZeroDivisionError()], ids=repr)
async def test_failure_of_a_device_frees_the_place_and_the_bytes(error: Exception) -> None:
    context = FakeContext()
    runner = runner_of(FakeDevice(0, raising(error)))
    with pytest.raises(type(error)):
        await runner.run_step(new_call(context), step_of(pooling_call(1, 9, 9)), ())


@pytest.fixture
def path() -> Iterator[Path]:
    """A shared object of 100 bytes."""
    path = Path(f"/dev/shm/aclgrad-{secrets.token_hex(6)}")
    path.write_bytes(bytes(range(100)))
    yield path
    path.unlink()


class SlowFiles(FakeDevice):
    """Reads files when it may."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.may_read = asyncio.Event()
        self.error = error

    async def read_file(self, tensor: FakeTensor, file: int, offset: int, deadline: float) -> int:
        await self.may_read.wait()
        if self.error is not None:
            raise self.error
        return await super().read_file(tensor, file, offset, deadline)


def shared_runner(device: FakeDevice, **options: Any) -> Runner:
    return replace(runner_of(device, **options), memory=SharedMemory(enabled=True, owners=()))


def unix_client() -> FakeContext:
    return FakeContext(peer="unix:")


def shared_call(path: Path, output_offset: int = 64) -> OperatorCall:
    """Returns a call whose input of 4 bytes and whose output of 16 are in shared memory."""
    call = pooling_call(1, 2, 2, source=SharedRange(f"/{path.name}", 8, 4))
    return replace(call, output_memory={"out": SharedRange(f"/{path.name}", output_offset, 16)})


async def test_a_step_with_tensors_beside_the_message_holds_memory_at_once_and_a_slot_only_to_run(path: Path) -> None:
    gate, device = Gate(), SlowFiles()
    device.behaviour = gate
    runner, size_bytes = shared_runner(device), pooling_plan(1, 2, 2).size_bytes
    running = await begun(runner.execute(encode_request(shared_call(path)), new_call(unix_client())))
    assert occupied(runner) == Occupancy(0, 0, size_bytes)
    device.may_read.set()
    await settle()
    assert occupied(runner) == Occupancy(1, 0, size_bytes)
    gate.is_open.set()
    (output,) = pb.ExecuteOperatorResponse.FromString(await running).outputs
    assert (output.data, list(output.shape), output.shared_memory.offset_bytes) == (b"", [1, 2, 2], 64)
    assert device.contents == [[bytes(range(8, 12)), None]]
    assert path.read_bytes() == bytes(range(64)) + b"\x01" * 16 + bytes(range(80, 100))
    assert occupied(runner) == Occupancy(0, 0, 0)


@pytest.mark.parametrize("is_staging", [False, True], ids=["file", "staging"])
@pytest.mark.parametrize("error", [DeadlinePassedError("late"), DeviceLostError("lost"), ZeroDivisionError()], ids=repr)
async def test_memory_is_given_back_if_staging_or_a_file_fails(path: Path, error: Exception, is_staging: bool) -> None:
    device = SlowFiles(error)
    device.may_read.set()
    if is_staging:
        device.stage_error = error
    runner = shared_runner(device)
    with pytest.raises(type(error)):
        await runner.execute(encode_request(shared_call(path)), new_call(unix_client()))
    assert occupied(runner) == Occupancy(0, 0, 0)
    assert device.executed == []


async def test_an_object_that_is_cut_short_while_it_is_read_is_the_clients_fault(path: Path) -> None:
    device = SlowFiles()
    running = await begun(shared_runner(device).execute(encode_request(shared_call(path)), new_call(unix_client())))
    path.write_bytes(bytes(10))
    device.may_read.set()
    with pytest.raises(InvalidFieldError, match="had 2 bytes left of 4; keep the object as it is") as caught:
        await running
    assert caught.value.field == "inputs[grad_output].shared_memory"
    assert device.executed == []


async def test_a_failed_step_leaves_shared_memory_as_it_was(path: Path) -> None:
    runner = shared_runner(FakeDevice(0, raising(ServerFaultError("failed"))))
    with pytest.raises(ServerFaultError):
        await runner.execute(encode_request(shared_call(path)), new_call(unix_client()))
    assert path.read_bytes() == bytes(range(100))


async def test_a_call_that_takes_more_than_one_may_is_refused_by_its_peak(path: Path) -> None:
    size_bytes = pooling_plan(1, 2, 2).size_bytes
    for allowed in (size_bytes, size_bytes - 1):
        device = SlowFiles()
        device.may_read.set()
        runner, request = shared_runner(device, max_call_bytes=allowed), encode_request(shared_call(path))
        if allowed == size_bytes:
            assert await runner.execute(request, new_call(unix_client()))
            continue
        with pytest.raises(LimitExceededError, match=r"raise --max-call-bytes \(ACLGRAD_MAX_CALL_BYTES\)") as caught:
            await runner.execute(request, new_call(unix_client()))
        assert caught.value.metadata == {"peak_bytes": str(size_bytes), "limit": str(allowed)}
        assert device.submitted == []


def unpooling(path: Path) -> OperatorCall:
    """Returns a call whose indices are in shared memory, and are checked on the host."""
    (typed,) = (each for each in first_cases(Product.ATLAS_A2) if each.spec.name == "max_unpool3d_backward")
    views = [view_of_array(*each) for each in typed.arrays().items()]
    inputs = []
    for each in views:
        if each.name == "indices" and each.data is not None:
            path.write_bytes(each.data)
            each = TensorView(each.name, each.type, SharedRange(f"/{path.name}", 0, each.type.size_bytes))
        inputs.append(each)
    return OperatorCall(typed.spec.name, tuple(inputs), typed.case.attributes)


@pytest.mark.parametrize("is_card", [True, False])
async def test_what_is_checked_is_charged_to_the_process_until_its_memory_is_free(path: Path, is_card: bool) -> None:
    call, device = unpooling(path), SlowFiles()
    step = step_of(call)
    checked_bytes = sum(source.nbytes for index, source in step.beside if step.plan.rules[index] is not None)
    assert checked_bytes
    runner = shared_runner(device, running_limit=1, checked_limit=checked_bytes if is_card else None)
    for _ in range(2):
        context = unix_client()
        device.may_read.clear()
        running = await begun(runner.execute(encode_request(call), new_call(context)))
        on_device = step.plan.size_bytes if is_card else step.plan.size_bytes + checked_bytes
        assert occupied(runner) == Occupancy(0, 0, on_device)
        assert runner.admission.checked_bytes == (checked_bytes if is_card else 0)
        device.may_read.set()
        await running
        context.end()
        await settle()
        # The second round would wait if anything of the process's memory were left.
        assert not device.staged
