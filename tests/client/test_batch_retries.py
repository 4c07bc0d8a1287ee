"""Both clients against a scripted service: which calls of a batch are sent again, and what is left of the others."""

import time
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.errors import to_status
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .scripted_batches import ONES, add, answer_each, answer_in_turn, numbers_sent, plain, sent
from .scripted_service import ScriptedService, abort_with

BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)
LATER = aclgrad.DeviceMemoryError("full", retry_after_s=1000.0)
BAD = aclgrad.InvalidFieldError("wrong")
REQUIRED = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")
INPUT = np.arange(4, dtype=np.float32).reshape(1, 2, 2)

Connect = Callable[..., Any]


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
        calls = pb.BatchExecuteOperatorsRequest.FromString(service.current.request).calls
        results = [pb.OperatorResult(error=to_status(BUSY, "5f0c")) for _ in calls]
        if len(service.requests) == 1:
            results[0] = pb.OperatorResult(
                outputs=[{"name": "o", "data_type": 1, "shape": [3], "data": several.tobytes()}]
            )
        return pb.BatchExecuteOperatorsResponse(results=results).SerializeToString()

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
    """It does not fit into the time limit: nobody is asked again, and at once."""
    answer_in_turn(service, {0: BUSY, 1: LATER})
    start = time.monotonic()
    outcomes = await maybe_await(add(connect(service.address).batch(), [0, 1, 2]).run(return_errors=True, timeout_s=60))
    assert time.monotonic() - start < 30
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


def wanting_values(call: pb.ExecuteOperatorRequest) -> float | aclgrad.AclgradError:
    """Refuses what came without values."""
    (input,) = (each for each in call.inputs if each.name == "self")
    return np.frombuffer(input.data, np.float32).sum() if input.HasField("data") else REQUIRED


def has_values(service: ScriptedService) -> list[list[bool]]:
    """Says of each call of each batch whether it had nothing but values."""
    return [[all(each.HasField("data") for each in call.inputs) for call in batch] for batch in sent(service)]


async def test_values_that_the_server_asks_for_are_sent_for_every_call(
    connect: Connect, service: ScriptedService
) -> None:
    """At once, as they complete the calls, and in later batches from the start."""
    answer_each(service, wanting_values)
    client = connect(service.address, retries=0)
    batch = client.batch()
    for factor in (1, 2, 3):
        batch.adaptive_avg_pool2d_backward(ONES, factor * INPUT)
    batch.replication_pad2d_backward(np.ones((1, 4, 4), np.float32), INPUT, (1, 1, 1, 1))
    for _ in range(2):
        assert plain(await maybe_await(batch.run())) == [6, 12, 18, 6]
    assert has_values(service) == [[False] * 4, [True] * 4, [True] * 4]


async def test_a_bare_shape_fails_alone(connect: Connect, service: ScriptedService) -> None:
    answer_each(service, wanting_values)
    client = connect(service.address, retries=0)
    batch = client.batch()
    batch.adaptive_avg_pool2d_backward(ONES, (1, 2, 2))
    batch.adaptive_avg_pool2d_backward(ONES, INPUT)
    outcomes = await maybe_await(batch.run(return_errors=True))
    assert plain(outcomes) == [aclgrad.InputValuesRequiredError, 6]
    assert outcomes[0].field == "inputs[self]"
    assert has_values(service) == [[False, False], [True]]
    with pytest.raises(aclgrad.InputValuesRequiredError, match="send the array"):
        await maybe_await(batch.run())


async def test_values_are_sent_though_others_have_to_wait(connect: Connect, service: ScriptedService) -> None:
    def outcome(call: pb.ExecuteOperatorRequest) -> float | aclgrad.AclgradError:
        return LATER if call.operator == "any" else wanting_values(call)

    answer_each(service, outcome)
    batch = add(connect(service.address, retries=0).batch(), [0])
    batch.adaptive_avg_pool2d_backward(ONES, INPUT)
    assert plain(await maybe_await(batch.run(return_errors=True))) == [aclgrad.DeviceMemoryError, 6]


async def test_a_server_that_is_never_content_is_asked_twice(connect: Connect, service: ScriptedService) -> None:
    answer_each(service, lambda call: REQUIRED)
    batch = connect(service.address).batch()
    for _ in range(3):
        batch.adaptive_avg_pool2d_backward(ONES, INPUT)
    assert plain(await maybe_await(batch.run(return_errors=True))) == [aclgrad.InputValuesRequiredError] * 3
    assert has_values(service) == [[False] * 3, [True] * 3]
