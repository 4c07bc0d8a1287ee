"""Both clients: a batch has taken all it needs when a call has been added, and sends values that are asked for."""

from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_batches import add, answer_each, calls_of, plain, sent
from .scripted_service import ONES, ScriptedService, failing

REQUIRED = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")
REFUSE_ALL = failing(REQUIRED)
LATER = aclgrad.DeviceMemoryError("full", retry_after_s=1000.0)
INPUT = np.arange(4, dtype=np.float32).reshape(1, 2, 2)


def sum_of_self(call: pb.ExecuteOperatorRequest) -> float | aclgrad.AclgradError:
    """Refuses what came without values."""
    (input,) = (each for each in call.inputs if each.name == "self")
    dtype = {1: np.float32, 2: np.float16}[input.data_type]
    return np.frombuffer(input.data, dtype).sum() if input.HasField("data") else REQUIRED


@pytest.mark.parametrize("shape_only", [True, False])
async def test_arrays_are_read_when_the_call_is_added(
    connect: Connect, service: ScriptedService, shape_only: bool
) -> None:
    """Also where the server asks for the values of an input whose shape was sent alone."""
    answer_each(service, sum_of_self)
    batch = connect(service.address, shape_only=shape_only).batch()
    buffer = np.empty((1, 2, 2), np.float32)
    for value in (1, 2, 3, 4):
        buffer.fill(value)
        batch.adaptive_avg_pool2d_backward(ONES, buffer)
    buffer.fill(np.nan)
    for _ in range(2):
        assert plain(await maybe_await(batch.run())) == [4, 8, 12, 16]


@pytest.mark.parametrize("dtype", ["<f2", ">f2", "<f4", ">f4"])
async def test_a_strided_array_is_read_when_the_call_is_added(
    connect: Connect, service: ScriptedService, dtype: str
) -> None:
    answer_each(service, sum_of_self)
    batch = connect(service.address).batch()
    buffer = np.arange(8, dtype=dtype).reshape(1, 4, 2)
    batch.adaptive_avg_pool2d_backward(ONES.astype(dtype), buffer[:, ::2, ::-1])
    buffer.fill(0)
    assert plain(await maybe_await(batch.run())) == [0 + 1 + 4 + 5]


async def test_attributes_and_names_are_read_when_the_call_is_added(connect: Connect, service: ScriptedService) -> None:
    answer_each(service, sum_of_self)
    batch = connect(service.address).batch()
    inputs = {"grad_output": np.ones((1, 4, 4), np.float32), "self": np.ones((1, 2, 2), np.float32)}
    attributes = {"padding": [1, 1, 1, 1]}
    batch.execute("replication_pad2d_backward", inputs, attributes)
    inputs["self"] = None
    attributes["padding"][0] = 9
    attributes["more"] = [2]
    assert plain(await maybe_await(batch.run())) == [4]
    for (call,) in sent(service):
        assert list(call.attributes) == ["padding"]
        assert list(call.attributes["padding"].ints_value.values) == [1, 1, 1, 1]


async def test_a_server_that_refuses_the_whole_batch_gets_the_values(
    connect: Connect, service: ScriptedService
) -> None:
    """A proxy may answer for all calls together."""
    answer_each(service, sum_of_self)
    answer = service.answer

    def answer_whole(context: grpc.ServicerContext) -> bytes:
        calls = calls_of(service.current.request)
        complete = all(each.HasField("data") for call in calls for each in call.inputs)
        return answer(context) if complete else REFUSE_ALL(context)

    service.answer = answer_whole
    batch = connect(service.address, retries=0).batch()
    for value in (1, 2):
        batch.adaptive_avg_pool2d_backward(ONES, np.full((1, 2, 2), value, np.float32))
    assert plain(await maybe_await(batch.run())) == [4, 8]
    assert len(service.requests) == 2


@pytest.mark.parametrize("input", [(1, 2, 2), np.ones((1, 2, 2), np.float32)], ids=["shape", "array"])
async def test_a_server_that_always_refuses_the_whole_batch_is_not_asked_for_ever(
    connect: Connect, service: ScriptedService, input: Any
) -> None:
    service.answer = REFUSE_ALL
    batch = connect(service.address, retries=0, timeout_s=5).batch()
    batch.adaptive_avg_pool2d_backward(ONES, input)
    with pytest.raises(aclgrad.InputValuesRequiredError, match="send the array"):
        await maybe_await(batch.run())
    assert len(service.requests) == (1 if isinstance(input, tuple) else 2)


def has_values(service: ScriptedService) -> list[list[bool]]:
    """Says of each call of each batch whether it had nothing but values."""
    return [[all(each.HasField("data") for each in call.inputs) for call in batch] for batch in sent(service)]


async def test_values_that_the_server_asks_for_are_sent_for_every_call(
    connect: Connect, service: ScriptedService
) -> None:
    """At once, as they complete the calls, and in later batches from the start."""
    answer_each(service, sum_of_self)
    client = connect(service.address, retries=0)
    batch = client.batch()
    for factor in (1, 2, 3):
        batch.adaptive_avg_pool2d_backward(ONES, factor * INPUT)
    batch.replication_pad2d_backward(np.ones((1, 4, 4), np.float32), INPUT, (1, 1, 1, 1))
    for _ in range(2):
        assert plain(await maybe_await(batch.run())) == [6, 12, 18, 6]
    assert has_values(service) == [[False] * 4, [True] * 4, [True] * 4]


async def test_a_bare_shape_fails_alone(connect: Connect, service: ScriptedService) -> None:
    answer_each(service, sum_of_self)
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
        return LATER if call.operator == "any" else sum_of_self(call)

    answer_each(service, outcome)
    batch = add(connect(service.address, retries=0).batch(), [0])
    batch.adaptive_avg_pool2d_backward(ONES, INPUT)
    assert plain(await maybe_await(batch.run(return_errors=True))) == [aclgrad.DeviceMemoryError, 6]
