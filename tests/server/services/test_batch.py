"""Each call of a batch has its own result, and a batch as a whole stays within bounds."""

import asyncio
import gc
import sys
import time

import pytest

from aclgrad import errors
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import MAX_BATCH_CALLS
from aclgrad.wire.messages import OperatorCall, decode_batch, encode_batch, encode_request
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.services import batch as batch_module
from aclgrad_server.services.batch import MAX_LOGGED_CALLS, execute_batch
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, new_call, runner_of, settle
from tests.server.sent import pooling_call, tensor

GOOD = encode_request(pooling_call(1, 2, 2))
BAD = encode_request(OperatorCall("adaptive_avg_pool2d_backward", (), {}))
MIB = 2**20


async def outcomes(runner: Runner, requests: list[bytes]) -> list[object]:
    """Returns the gradient of each call, or the type of its error."""
    reply = await execute_batch(runner, encode_batch(requests), new_call())
    results: list[object] = []
    for each in decode_batch(reply):
        if isinstance(each, tuple):
            results.append(bytes(each[0].data))
        else:
            results.append(type(errors.from_status(each)))
    return results


async def test_every_call_has_its_result_in_its_place() -> None:
    inputs = tensor("grad_output", 1, 1, 1), tensor("self", 1, 2, 2)
    range = TensorView("grad_output", inputs[0].type, SharedRange("/aclgrad-x", 0, 4))
    shared = encode_request(OperatorCall("adaptive_avg_pool2d_backward", (range, inputs[1]), {}))
    refused = [errors.InvalidFieldError, errors.MalformedRequestError, errors.InvalidFieldError]
    found = await outcomes(runner_of(FakeDevice()), [GOOD, BAD, b"\xff", shared, GOOD])
    assert found == [b"\x01" * 16, *refused, b"\x01" * 16]


async def test_failure_on_the_device_is_that_of_its_call_alone() -> None:
    async def fail_sometimes(plan: StepPlan) -> None:
        if len(device.executed) == 2:
            raise errors.DeviceMemoryError("full")

    device = FakeDevice(0, fail_sometimes)
    assert await outcomes(runner_of(device), [GOOD] * 3) == [b"\x01" * 16, errors.DeviceMemoryError, b"\x01" * 16]


async def test_batch_without_a_good_call_reaches_no_device() -> None:
    device = FakeDevice()
    assert await outcomes(runner_of(device), [BAD, BAD]) == [errors.InvalidFieldError] * 2
    assert await outcomes(runner_of(device), []) == []
    assert device.executed == []


@pytest.mark.parametrize(
    ("requests", "max_message_bytes", "told"),
    [
        ([b""] * (MAX_BATCH_CALLS + 1), MIB, f"are {MAX_BATCH_CALLS + 1} and the limit is"),
        ([GOOD] * 50, 1000, "--max-message-bytes"),
    ],
    ids=["calls", "reply"],
)
async def test_batch_beyond_a_limit_is_refused_before_it_is_computed(
    requests: list[bytes], max_message_bytes: int, told: str
) -> None:
    device = FakeDevice()
    with pytest.raises(errors.LimitExceededError, match=told):
        await execute_batch(runner_of(device, max_message_bytes=max_message_bytes), encode_batch(requests), new_call())
    assert device.executed == []


@pytest.mark.parametrize("requests", [[BAD] * 20, [GOOD] + [BAD] * 20], ids=["all_bad", "one_good"])
async def test_statuses_that_exceed_the_message_limit_are_refused(requests: list[bytes]) -> None:
    """A small bad call has a large status: gRPC itself would refuse the reply, without a word of ours."""
    runner, context = runner_of(FakeDevice(), max_message_bytes=4000), FakeContext()
    with pytest.raises(errors.LimitExceededError, match="--max-message-bytes"):
        await execute_batch(runner, encode_batch(requests), new_call(context))


async def test_large_replies_are_joined_by_the_device() -> None:
    class JoiningDevice(FakeDevice):
        joined = 0

        async def join(self, pieces: list[bytes | memoryview]) -> bytes:
            self.joined += 1
            return b"".join(pieces)

    for requests, count in (([GOOD, BAD], 0), ([BAD] * 500, 1), ([GOOD, *[BAD] * 500], 1)):
        device = JoiningDevice()
        assert len(await outcomes(runner_of(device), requests)) == len(requests)
        assert device.joined == count


async def test_batch_that_is_late_is_refused_as_a_whole() -> None:
    call = new_call()
    call.deadline = time.monotonic() - 1
    with pytest.raises(errors.DeadlinePassedError):
        await execute_batch(runner_of(FakeDevice()), encode_batch([BAD] * 4000), call)


async def test_log_names_some_of_many_failures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await outcomes(runner_of(FakeDevice()), [BAD] * (MAX_LOGGED_CALLS + 5))
    assert caplog.text.count("of the batch:") == MAX_LOGGED_CALLS
    assert "5 more calls of the batch failed" in caplog.text


async def test_others_run_while_a_batch_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the time that a batch may hold the event loop: here, after each call."""
    monkeypatch.setattr(batch_module, "_HOLD_S", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    await outcomes(runner_of(FakeDevice()), [BAD] * 20)
    assert turns > 20
    other.cancel()


async def test_nothing_is_kept_of_a_batch_with_bad_calls() -> None:
    """Without a garbage collection: its message may have megabytes."""

    batch = encode_batch([GOOD, BAD])
    before = sys.getrefcount(batch)
    gc.disable()
    try:
        runner = runner_of(FakeDevice())
        reply = await execute_batch(runner, batch, new_call())
        assert pb.BatchExecuteOperatorsResponse.FromString(reply).results[1].HasField("error")
        await settle()
        assert sys.getrefcount(batch) == before
    finally:
        gc.enable()
