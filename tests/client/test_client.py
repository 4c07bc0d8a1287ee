"""Both clients against a scripted service: what is sent, and for how long."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tools.calling import maybe_await

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


UNSENDABLE = {
    "only_shapes": (("pool", {"self": (2, 3)}), "inputs[self]"),
    "text": (("pool", {"a": np.array(["x"])}), "inputs[a]"),
    "ragged_list": (("pool", {"a": [[1.0], [2.0, 3.0]]}), "inputs[a]"),
    "huge_size": (("pool", {"a": ONES, "b": (2**63,)}), "inputs[b].shape"),
    "name_that_is_no_text": (("pool", {3: ONES}), "inputs"),
    "operator_that_is_no_text": ((3, {"a": ONES}), "operator"),
    "operator_that_is_no_utf8": (("\ud800", {"a": ONES}), "operator"),
    "attribute_name": (("pool", {"a": ONES}, {3: 1}), "attributes"),
    "attribute_none": (("pool", {"a": ONES}, {"size": None}), "attributes[size]"),
    "attribute_bytes": (("pool", {"a": ONES}, {"size": b"ab"}), "attributes[size]"),
    "attribute_text": (("pool", {"a": ONES}, {"size": "12"}), "attributes[size]"),
    "attribute_huge": (("pool", {"a": ONES}, {"size": 2**63}), "attributes[size]"),
    "attribute_floats": (("pool", {"a": ONES}, {"size": (1.5, 2.0)}), "attributes[size]"),
}


@pytest.mark.parametrize(("call", "at_fault"), UNSENDABLE.values(), ids=UNSENDABLE)
async def test_what_has_no_form_on_the_wire_is_refused_before_sending(
    connect: Callable[..., Any], service: ScriptedService, call: tuple[Any, ...], at_fault: str
) -> None:
    client = connect(service.address)
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        await maybe_await(client.execute(*call))
    assert caught.value.field == at_fault
    assert not service.requests


async def test_numbers_of_numpy_are_numbers(connect: Callable[..., Any], service: ScriptedService) -> None:
    attributes = {"a": np.int32(3), "b": np.bool_(True), "c": np.float32(0.5), "d": np.array([1, 2]), "e": range(3)}
    await maybe_await(connect(service.address).execute("pool", {"a": ONES}, attributes))
    sent = pb.ExecuteOperatorRequest.FromString(service.requests[0][1]).attributes
    assert (sent["a"].int_value, sent["b"].bool_value, sent["c"].double_value) == (3, True, 0.5)
    assert (list(sent["d"].ints_value.values), list(sent["e"].ints_value.values)) == ([1, 2], [0, 1, 2])


async def test_a_closed_client_says_so(connect: Callable[..., Any], service: ScriptedService) -> None:
    client = connect(service.address)
    await maybe_await(client.close())
    with pytest.raises(aclgrad.CallCancelledError, match="the client is closed; make a new client"):
        await maybe_await(client.execute("pool", {"a": ONES}))


async def test_time_limit_of_the_call_goes_before_that_of_the_client(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    remaining: list[float] = []

    def note_deadline(context: grpc.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        return REPLY

    service.answer = note_deadline
    client = connect(service.address, timeout_s=1000)
    pooled = np.ones((1, 2, 2), np.float32)
    for timeout_s in (aclgrad.DEFAULT, 5000, None):
        await maybe_await(client.execute("pool", {"a": ONES}, timeout_s=timeout_s))
        await maybe_await(client.adaptive_avg_pool2d_backward(ONES, pooled, timeout_s=timeout_s))
        with suppress(aclgrad.ServerFaultError):  # the reply is that of another method
            await maybe_await(client.list_operators(timeout_s=timeout_s))
        batch = client.batch()
        batch.execute("pool", {"a": ONES})
        with suppress(aclgrad.ServerFaultError):
            await maybe_await(batch.run(timeout_s=timeout_s))
    # Deadlines travel rounded to a few digits.
    assert all(900 < each < 1100 for each in remaining[:4])
    assert all(4900 < each < 5100 for each in remaining[4:8])
    # gRPC's own word for no deadline.
    assert all(each is None or each > 1e8 for each in remaining[8:])
    assert len(remaining) == 12
