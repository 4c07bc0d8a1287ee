"""Both clients against a scripted service: what a batch sends, and what it gives back."""

import gc
import weakref
from contextlib import suppress

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.errors import to_status
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_batches import add, answer_in_turn, numbers_sent, plain
from .scripted_service import ONES, ScriptedService, abort_with

BAD = aclgrad.InvalidFieldError("wrong", field="inputs[a]")
WORSE = aclgrad.ServerFaultError("oops")


async def test_calls_tell_their_positions(connect: Connect, service: ScriptedService) -> None:
    batch = connect(service.address).batch()
    assert batch.execute("any", {"a": ONES}) == 0
    assert batch.adaptive_avg_pool2d_backward(ONES, (1, 2, 2)) == 1


async def test_the_first_error_is_raised(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {3: BAD, 1: WORSE})
    with pytest.raises(aclgrad.ServerFaultError, match=r"^oops$") as caught:
        await maybe_await(add(connect(service.address).batch(), range(5)).run())
    assert caught.value.request_id == "5f0c"
    assert len(service.requests) == 1


async def test_a_call_that_is_refused_is_not_added(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {})
    batch = add(connect(service.address).batch(), [7])
    for inputs, attributes in (({"a": np.array(["text"])}, {}), ({"a": ONES}, {"number": 2**70})):
        with pytest.raises(aclgrad.InvalidFieldError):
            batch.execute("any", inputs, attributes)
    assert plain(await maybe_await(add(batch, [8]).run())) == [7, 8]


async def test_one_call_has_no_time_limit_of_its_own(connect: Connect, service: ScriptedService) -> None:
    batch = connect(service.address).batch()
    with pytest.raises(ValueError, match=r"give it to run\(\)"):
        batch.adaptive_avg_pool2d_backward(ONES, (1, 2, 2), timeout_s=1)
    assert len(batch) == 0


async def test_nothing_is_sent_for_no_calls(connect: Connect, service: ScriptedService) -> None:
    assert await maybe_await(connect(service.address).batch().run()) == []
    assert service.requests == []


async def test_a_batch_runs_again_and_grows(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {0: BAD}, {})
    batch = add(connect(service.address).batch(), [0, 1])
    assert plain(await maybe_await(batch.run(return_errors=True))) == [aclgrad.InvalidFieldError, 1]
    assert plain(await maybe_await(batch.run())) == [0, 1]
    assert plain(await maybe_await(add(batch, [2]).run())) == [0, 1, 2]
    assert numbers_sent(service) == [[0, 1], [0, 1], [0, 1, 2]]


async def test_replies_that_make_no_sense(connect: Connect, service: ScriptedService) -> None:
    kept = {count: pb.ExecuteProgramResponse(results=[pb.StepResult()] * count) for count in (0, 1, 3)}
    answers = {f"answered {count} of 2 steps": reply.SerializeToString() for count, reply in kept.items()}
    batch = add(connect(service.address).batch(), [0, 1])
    for told, reply in [*answers.items(), ("cannot be read", b"\xff"), ("cannot be read", b"\x0a\x05abc")]:
        service.answer = lambda context, reply=reply: reply
        with pytest.raises(aclgrad.ServerFaultError, match=told):
            await maybe_await(batch.run(return_errors=True))


BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)
LATER = aclgrad.DeviceMemoryError("full", retry_after_s=1000.0)


async def test_only_what_failed_in_passing_is_sent_again(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {1: BUSY, 2: BAD, 4: BUSY}, {4: BUSY}, {})
    batch = add(connect(service.address).batch(), range(6))
    assert plain(await maybe_await(batch.run(return_errors=True))) == [0, 1, aclgrad.InvalidFieldError, 3, 4, 5]
    assert numbers_sent(service) == [[0, 1, 2, 3, 4, 5], [1, 4], [4]]


@pytest.mark.parametrize("retries", [0, 2])
async def test_what_fails_to_the_end_costs_nothing_of_the_others(
    connect: Connect, service: ScriptedService, retries: int
) -> None:
    """Results of several elements: numpy has an opinion of its own on what is None."""
    several = np.arange(3, dtype=np.float32)

    def reply(context: grpc.ServicerContext) -> bytes:
        calls = pb.ExecuteProgramRequest.FromString(service.current.request).steps
        results = [pb.StepResult(error=to_status(BUSY, "5f0c")) for _ in calls]
        if len(service.requests) == 1:
            results[0] = pb.StepResult(outputs=[{"name": "o", "data_type": 1, "shape": [3], "data": several.tobytes()}])
        return pb.ExecuteProgramResponse(results=results).SerializeToString()

    service.answer = reply
    client = connect(service.address, retries=retries)
    gradient, error = await maybe_await(add(client.batch(), [0, 1]).run(return_errors=True))
    assert gradient.tolist() == several.tolist()
    assert isinstance(error, aclgrad.ServerBusyError)
    assert numbers_sent(service) == [[0, 1], *[[1]] * retries]
    service.requests.clear()
    with pytest.raises(aclgrad.ServerBusyError):
        await maybe_await(add(client.batch(), [0, 1]).run())


async def test_the_longest_delay_counts(connect: Connect, service: ScriptedService) -> None:
    """It does not fit into the time limit: nobody is asked again."""
    answer_in_turn(service, {0: BUSY, 1: LATER})
    outcomes = await maybe_await(add(connect(service.address).batch(), [0, 1, 2]).run(return_errors=True, timeout_s=60))
    assert plain(outcomes) == [aclgrad.ServerBusyError, aclgrad.DeviceMemoryError, 2]
    assert len(service.requests) == 1


async def test_a_batch_that_fails_as_a_whole_is_sent_again(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {})
    good = service.answer
    lost = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    service.answer = lambda context: (lost if len(service.requests) == 1 else good)(context)
    assert plain(await maybe_await(add(connect(service.address).batch(), [0, 1]).run())) == [0, 1]
    assert numbers_sent(service) == [[0, 1], [0, 1]]


async def test_a_server_that_goes_after_the_first_attempt(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {1: BUSY})
    first = service.answer
    gone = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    service.answer = lambda context: (first if len(service.requests) == 1 else gone)(context)
    outcomes = await maybe_await(add(connect(service.address, retries=2).batch(), [0, 1]).run(return_errors=True))
    assert plain(outcomes) == [0, aclgrad.ServerBusyError]


async def test_a_run_that_raises_leaves_nothing_to_the_garbage_collector(
    connect: Connect, service: ScriptedService
) -> None:
    """The traceback of its error has frames that have the run, and so all arrays."""
    answer_in_turn(service, {0: BAD})
    client, out = connect(service.address), np.empty(1, np.float32)
    ref = weakref.ref(out)
    batch = client.batch()
    batch.execute("any", {"a": ONES}, out=out)
    del out
    gc.collect()
    gc.disable()
    try:
        with suppress(aclgrad.InvalidFieldError):
            await maybe_await(batch.run())
        del batch
        assert ref() is None
    finally:
        gc.enable()
