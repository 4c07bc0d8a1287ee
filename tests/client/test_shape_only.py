"""Both clients against a scripted service: when the values of an input are sent that the operator does not read."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.errors import to_status
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tests.calling import maybe_await

from .scripted_service import REPLY, ScriptedService, abort_with

GRAD = np.ones((1, 1, 1), np.float32)
INPUT = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
PADDED = np.ones((1, 4, 4), np.float32)
REQUIRED = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")
REFUSE = abort_with(REQUIRED.code, REQUIRED.message, to_status(REQUIRED, "5f0c").SerializeToString())


def inputs_of(request: bytes) -> dict[str, tensor_pb2.Tensor]:
    return {each.name: each for each in pb.ExecuteOperatorRequest.FromString(request).inputs}


def sent(service: ScriptedService) -> list[dict[str, tensor_pb2.Tensor]]:
    return [inputs_of(request) for _, request in service.requests]


def has_values(service: ScriptedService) -> list[bool]:
    """Says of each request whether the values of `self` were in it."""
    return [inputs["self"].HasField("data") for inputs in sent(service)]


def answer_with_values(service: ScriptedService) -> Callable[[grpc.ServicerContext], bytes]:
    """Refuses what came without values."""

    def answer(context: grpc.ServicerContext) -> bytes:
        return REPLY if inputs_of(service.current.request)["self"].HasField("data") else REFUSE(context)

    return answer


@pytest.mark.parametrize("by_name", [False, True], ids=["method", "execute"])
async def test_of_an_unread_input_the_shape_alone_is_sent(
    connect: Callable[..., Any], service: ScriptedService, by_name: bool
) -> None:
    client = connect(service.address)
    array = np.zeros((1, 4, 6), np.float16)[:, ::2, ::-1]
    if by_name:
        await maybe_await(client.execute("adaptive_avg_pool2d_backward", {"self": array, "grad_output": GRAD}))
    else:
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, array))
    (inputs,) = sent(service)
    assert inputs["self"] == tensor_pb2.Tensor(name="self", data_type="DATA_TYPE_FLOAT16", shape=[1, 2, 6])
    assert inputs["grad_output"].data == GRAD.tobytes()


async def test_every_array_is_sent_where_that_is_asked_for(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    client = connect(service.address, shape_only=False)
    await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, INPUT))
    await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
    assert has_values(service) == [True, False]


async def test_inputs_that_are_read_are_always_sent(connect: Callable[..., Any], service: ScriptedService) -> None:
    await maybe_await(connect(service.address).roi_align_v2_backward(GRAD, GRAD, (1, 1, 2, 2), 1, 1))
    (inputs,) = sent(service)
    assert all(each.HasField("data") for each in inputs.values())


async def test_values_that_the_server_asks_for_are_sent_at_once_and_from_then_on(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    service.answer = answer_with_values(service)
    # It is no retry of a failure: the same call is completed.
    client = connect(service.address, retries=0)
    for _ in range(2):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(service) == [False, True, True]
    assert sent(service)[1]["self"].data == INPUT.tobytes()
    # Another operator may be another matter.
    await maybe_await(client.replication_pad2d_backward(PADDED, INPUT, (1, 1, 1, 1)))
    assert has_values(service)[3:] == [False, True]


async def test_another_client_knows_nothing_of_it(connect: Callable[..., Any], service: ScriptedService) -> None:
    service.answer = answer_with_values(service)
    for _ in range(2):
        await maybe_await(connect(service.address).adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(service) == [False, True] * 2


async def test_a_bare_shape_raises_and_is_remembered(connect: Callable[..., Any], service: ScriptedService) -> None:
    service.answer = answer_with_values(service)
    client = connect(service.address)
    with pytest.raises(aclgrad.InputValuesRequiredError, match="send the array") as caught:
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
    assert caught.value.field == "inputs[self]"
    await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(service) == [False, True]


async def test_a_server_that_is_never_content_is_asked_twice(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    service.answer = REFUSE
    with pytest.raises(aclgrad.InputValuesRequiredError):
        await maybe_await(connect(service.address).adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(service) == [False, True]


def test_threads_share_what_one_of_them_was_told(service: ScriptedService) -> None:
    service.answer = answer_with_values(service)
    with aclgrad.Client(service.address) as client, ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(client.adaptive_avg_pool2d_backward, GRAD, INPUT) for _ in range(200)]
        for call in calls:
            call.result(60)
    assert has_values(service).count(True) == 200
    # No call that began after the first answer lacks the values.
    assert has_values(service).count(False) <= 8
