"""Both clients against a scripted service: what is sent, and for how long."""

from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tests.calling import maybe_await

from .scripted_service import GRADIENT, REPLY, ScriptedService

ONES = np.ones((1, 1, 1), np.float32)


async def test_execute_sends_the_call_and_returns_the_gradient(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    values = np.arange(6, dtype=np.float16).reshape(1, 2, 3)
    client = connect(service.address)
    gradient = await maybe_await(client.execute("pool", {"b": (4, 5), "a": values}, {"sizes": [1, 2], "flag": False}))
    assert gradient.tolist() == GRADIENT.tolist()
    ((method, request),) = service.requests
    assert method == "/aclgrad.v1.OperatorService/ExecuteOperator"
    expected = pb.ExecuteOperatorRequest(operator="pool")
    expected.inputs.add(name="b", data_type="DATA_TYPE_FLOAT16", shape=[4, 5])
    expected.inputs.add(name="a", data_type="DATA_TYPE_FLOAT16", shape=[1, 2, 3], data=values.tobytes())
    expected.attributes["sizes"].ints_value.values.extend([1, 2])
    expected.attributes["flag"].bool_value = False
    assert pb.ExecuteOperatorRequest.FromString(request) == expected


async def test_lists_and_numbers_are_arrays(connect: Callable[..., Any], service: ScriptedService) -> None:
    await maybe_await(connect(service.address).execute("pool", {"a": [[1, 2], [3, 4]], "b": 2.5}))
    a, b = pb.ExecuteOperatorRequest.FromString(service.requests[0][1]).inputs
    assert (a.data_type, list(a.shape)) == (tensor_pb2.DATA_TYPE_INT64, [2, 2])
    assert (b.data_type, list(b.shape), len(b.data)) == (tensor_pb2.DATA_TYPE_FLOAT64, [], 8)


@pytest.mark.parametrize(
    ("inputs", "at_fault"),
    [({"self": (2, 3)}, "inputs[self]"), ({"a": np.array(["x"])}, "inputs[a]")],
    ids=["only_shapes", "text"],
)
async def test_inputs_without_a_form_on_the_wire_are_refused_before_sending(
    connect: Callable[..., Any], service: ScriptedService, inputs: dict[str, Any], at_fault: str
) -> None:
    client = connect(service.address)
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        await maybe_await(client.execute("pool", inputs))
    assert caught.value.field == at_fault
    assert not service.requests


async def test_time_limit_of_the_call_goes_before_that_of_the_client(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    remaining: list[float] = []

    def note_deadline(context: grpc.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        return REPLY

    service.answer = note_deadline
    client = connect(service.address, timeout_s=1000)
    await maybe_await(client.execute("pool", {"a": ONES}))
    await maybe_await(client.execute("pool", {"a": ONES}, timeout_s=5000))
    # Deadlines travel rounded to a few digits.
    assert 900 < remaining[0] < 1100
    assert 4900 < remaining[1] < 5100
