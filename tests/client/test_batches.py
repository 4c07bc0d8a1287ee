"""Both clients against a scripted service: what a batch sends, and what it gives back."""

import threading
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .scripted_batches import ONES, add, answer_in_turn, numbers_sent, plain
from .scripted_service import ScriptedService, abort_with

BAD = aclgrad.InvalidFieldError("wrong", field="inputs[a]")
WORSE = aclgrad.ServerFaultError("oops")

Connect = Callable[..., Any]


async def test_results_come_in_the_order_of_the_calls(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {})
    batch = add(connect(service.address).batch(), range(64))
    assert len(batch) == 64
    assert plain(await maybe_await(batch.run())) == list(range(64))
    assert numbers_sent(service) == [list(range(64))]


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


async def test_errors_stand_in_their_places_where_that_is_asked_for(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {3: BAD, 1: WORSE})
    batch = add(connect(service.address).batch(), range(5))
    outcomes = await maybe_await(batch.run(return_errors=True))
    assert plain(outcomes) == [0, aclgrad.ServerFaultError, 2, aclgrad.InvalidFieldError, 4]
    assert outcomes[3].field == "inputs[a]"


UNSENDABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "dtype": ({"a": np.array(["text"])}, {}),
    "ragged": ({"a": [[1.0], [1.0, 2.0]]}, {}),
    "no_array": ({"a": (1, 2)}, {}),
    "size": ({"a": ONES, "b": (2**70, 1)}, {}),
    "attribute": ({"a": ONES}, {"number": object()}),
    "large_attribute": ({"a": ONES}, {"number": 2**70}),
}


@pytest.mark.parametrize(("inputs", "attributes"), UNSENDABLE.values(), ids=UNSENDABLE)
async def test_what_the_wire_cannot_hold_is_not_added(
    connect: Connect, service: ScriptedService, inputs: dict[str, Any], attributes: dict[str, Any]
) -> None:
    answer_in_turn(service, {})
    batch = add(connect(service.address).batch(), [7])
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


async def test_the_time_limit_is_that_of_the_whole(connect: Connect, service: ScriptedService) -> None:
    late = threading.Event()
    service.answer = lambda context: bytes(late.wait(60))
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(add(connect(service.address).batch(), [0]).run(timeout_s=0.2))
    late.set()


@pytest.mark.parametrize("kept", [0, 1, 3])
async def test_as_many_results_as_calls(connect: Connect, service: ScriptedService, kept: int) -> None:
    result = pb.OperatorResult()
    reply = pb.BatchExecuteOperatorsResponse(results=[result] * kept).SerializeToString()
    service.answer = lambda context: reply
    with pytest.raises(aclgrad.ServerFaultError, match=f"answered {kept} of 2 calls"):
        await maybe_await(add(connect(service.address).batch(), [0, 1]).run(return_errors=True))


@pytest.mark.parametrize("reply", [b"\xff", b"\x0a\x05abc"], ids=repr)
async def test_reply_that_is_no_message(connect: Connect, service: ScriptedService, reply: bytes) -> None:
    service.answer = lambda context: reply
    with pytest.raises(aclgrad.ServerFaultError, match="cannot be read"):
        await maybe_await(add(connect(service.address).batch(), [0]).run(return_errors=True))


async def test_an_older_server_has_no_batches(connect: Connect, service: ScriptedService) -> None:
    service.answer = abort_with(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    with pytest.raises(aclgrad.MethodNotServedError, match="this version or a newer one"):
        await maybe_await(add(connect(service.address).batch(), [0]).run(return_errors=True))
    assert len(service.requests) == 1
