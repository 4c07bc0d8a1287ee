"""Each step of a program has its own result, and a program as a whole stays within bounds."""

import asyncio
import gc
import sys
import time

import pytest

from aclgrad import errors
from aclgrad.sources import SharedRange
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import MAX_STEPS
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import decode_results
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.services import programs as programs_module
from aclgrad_server.services.programs import MAX_LOGGED_STEPS, execute_program
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, new_call, runner_of, settle
from tests.server.sent import output_of, pooling_call, program_of, tanh_call, tensor

GOOD = pooling_call(1, 2, 2)
BAD = OperatorCall("adaptive_avg_pool2d_backward", (), {})
SHARED = pooling_call(1, 2, 2, source=SharedRange("/aclgrad-x", 0, 4))
NEEDS_GOOD = tanh_call(output_of(0, "grad_output", 1, 2, 2), tensor("output", 1, 2, 2, data=bytes(16)))
MIB = 2**20

Sent = OperatorCall | bytes


async def outcomes(runner: Runner, *calls: Sent, returned: tuple[tuple[int, str], ...] = ()) -> list[object]:
    """Returns the gradient of each step, or the type of its error."""
    reply = await execute_program(runner, program_of(*calls, returned=returned), new_call())
    results: list[object] = []
    for each in decode_results(reply):
        if isinstance(each, tuple):
            results.append(b"".join(bytes(output.data or b"") for output in each))
        else:
            results.append(type(errors.from_status(each)))
    return results


async def test_every_step_has_its_result_in_its_place() -> None:
    refused = [errors.InvalidFieldError, errors.InvalidFieldError]
    unnamed = errors.UnknownOperatorError
    found = await outcomes(runner_of(FakeDevice()), GOOD, BAD, OperatorCall("unknown", (), {}), BAD, GOOD, NEEDS_GOOD)
    assert found == [b"\x01" * 16, refused[0], unnamed, refused[1], b"\x01" * 16, b"\x01" * 16]


async def test_bytes_that_are_no_step_make_no_program() -> None:
    """Protobuf parses steps and table together."""
    with pytest.raises(errors.MalformedRequestError):
        await outcomes(runner_of(FakeDevice()), GOOD, b"\xff")


async def test_shared_memory_that_the_client_may_not_name_refuses_the_program() -> None:
    device = FakeDevice()
    with pytest.raises(errors.SharedMemoryUnavailableError, match="needs a unix socket"):
        await outcomes(runner_of(device), GOOD, SHARED)
    assert device.executed == []


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ((), [b"\x01" * 16, b"\x01" * 16]),
        (((1, "grad_input"),), [b"", b"\x01" * 16]),
        (((0, "out"),), [b"\x01" * 16, b""]),
        (((1, "grad_input"), (0, "out"), (0, "out")), [b"\x01" * 16, b"\x01" * 16]),
    ],
)
async def test_outputs_that_are_not_asked_for_do_not_travel(
    returned: tuple[tuple[int, str], ...], expected: list[bytes]
) -> None:
    assert await outcomes(runner_of(FakeDevice()), GOOD, NEEDS_GOOD, returned=returned) == expected


async def test_failure_on_the_device_is_that_of_its_step_and_of_those_that_need_it() -> None:
    async def fail_sometimes(plan: StepPlan) -> None:
        if len(device.executed) == 2:
            raise errors.DeviceMemoryError("full")

    device = FakeDevice(0, fail_sometimes)
    needs_second = tanh_call(output_of(1, "grad_output", 1, 2, 2), tensor("output", 1, 2, 2, data=bytes(16)))
    reply = await execute_program(runner_of(device), program_of(GOOD, GOOD, GOOD, needs_second), new_call())
    good, failed, also_good, needing = decode_results(reply)
    assert isinstance(good, tuple)
    assert isinstance(also_good, tuple)
    assert not isinstance(failed, tuple)
    assert not isinstance(needing, tuple)
    assert isinstance(errors.from_status(failed), errors.DeviceMemoryError)
    error = errors.from_status(needing)
    assert isinstance(error, errors.InputFailedError)
    assert error.metadata["step"] == "1"


async def test_program_without_a_good_step_reaches_no_device() -> None:
    device = FakeDevice()
    assert await outcomes(runner_of(device), BAD, BAD) == [errors.InvalidFieldError] * 2
    assert await outcomes(runner_of(device)) == []
    assert device.executed == []


@pytest.mark.parametrize(
    ("calls", "max_message_bytes", "told"),
    [
        ([b""] * (MAX_STEPS + 1), MIB, f"are {MAX_STEPS + 1} and the limit is"),
        ([GOOD] * 50, 1000, "--max-message-bytes"),
    ],
    ids=["steps", "reply"],
)
async def test_program_beyond_a_limit_is_refused_before_it_is_computed(
    calls: list[Sent], max_message_bytes: int, told: str
) -> None:
    device = FakeDevice()
    runner = runner_of(device, max_message_bytes=max_message_bytes)
    with pytest.raises(errors.LimitExceededError, match=told):
        await execute_program(runner, program_of(*calls), new_call())
    assert device.executed == []


@pytest.mark.parametrize("calls", [[BAD] * 20, [GOOD] + [BAD] * 20], ids=["all_bad", "one_good"])
async def test_statuses_that_exceed_the_message_limit_are_refused(calls: list[Sent]) -> None:
    """A small bad step has a large status: gRPC itself would refuse the reply, without a word of ours."""
    runner, context = runner_of(FakeDevice(), max_message_bytes=4000), FakeContext()
    with pytest.raises(errors.LimitExceededError, match="--max-message-bytes"):
        await execute_program(runner, program_of(*calls), new_call(context))


async def test_large_replies_are_joined_by_the_device() -> None:
    class JoiningDevice(FakeDevice):
        joined = 0

        async def join(self, pieces: list[bytes | memoryview]) -> bytes:
            self.joined += 1
            return b"".join(pieces)

    for calls, count in (([GOOD, BAD], 0), ([BAD] * 500, 1), ([GOOD, *[BAD] * 500], 1)):
        device = JoiningDevice()
        assert len(await outcomes(runner_of(device), *calls)) == len(calls)
        assert device.joined == count


async def test_program_that_is_late_is_refused_as_a_whole() -> None:
    call = new_call()
    call.deadline = time.monotonic() - 1
    with pytest.raises(errors.DeadlinePassedError):
        await execute_program(runner_of(FakeDevice()), program_of(*[BAD] * 4000), call)


async def test_log_names_some_of_many_failures(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    await outcomes(runner_of(FakeDevice()), *[BAD] * (MAX_LOGGED_STEPS + 5))
    assert caplog.text.count("of the program:") == MAX_LOGGED_STEPS
    assert "5 more steps of the program failed" in caplog.text


async def test_what_the_figures_say_of_a_program() -> None:
    call = new_call()
    runner = runner_of(FakeDevice())
    await execute_program(runner, program_of(GOOD, BAD, OperatorCall("x", (), {}), GOOD, NEEDS_GOOD), call)
    assert (call.operator, call.step_count) == ("program of 5", 5)
    plans = [plan for plan, _ in runner.device.executed]
    assert call.work_s == pytest.approx(sum(plan.seconds for plan in plans))
    assert {key: count for key, count in call.items.items() if count} == {
        (GOOD.operator, "OK"): 2,
        (GOOD.operator, "INVALID_FIELD"): 1,
        ("-", "UNKNOWN_OPERATOR"): 1,
        ("tanh_backward", "OK"): 1,
    }
    alone = new_call()
    await execute_program(runner, program_of(GOOD), alone)
    assert (alone.operator, alone.step_count) == (GOOD.operator, 1)


@pytest.mark.parametrize("count_of_programs", [1, 4])
async def test_others_run_while_programs_are_read(monkeypatch: pytest.MonkeyPatch, count_of_programs: int) -> None:
    """After the time that programs may hold the event loop: here, after each step of any of them."""
    monkeypatch.setattr(programs_module, "_HOLD_S", 0.0)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.ensure_future(count())
    runner = runner_of(FakeDevice())
    await asyncio.gather(*(outcomes(runner, *[BAD] * 20) for _ in range(count_of_programs)))
    assert turns > 20 * count_of_programs
    other.cancel()


async def test_nothing_is_kept_of_a_program_with_bad_steps() -> None:
    """Without a garbage collection: its message may have megabytes."""

    program = program_of(GOOD, BAD)
    before = sys.getrefcount(program)
    gc.disable()
    try:
        runner = runner_of(FakeDevice())
        reply = await execute_program(runner, program, new_call())
        assert pb.ExecuteProgramResponse.FromString(reply).results[1].HasField("error")
        await settle()
        assert sys.getrefcount(program) == before
    finally:
        gc.enable()
