"""When both clients send the values of an input that the operator does not read, seen by a service that keeps them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.testing import serve
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import ScriptedService, failing, relay_to

GRAD = np.ones((1, 1, 1), np.float32)
INPUT = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
PADDED = np.ones((1, 4, 4), np.float32)
ROW = np.ones((1, 1, 3), np.float32)
REQUIRED = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")


def inputs_of(request: bytes) -> dict[str, tensor_pb2.Tensor]:
    return {each.name: each for each in pb.ExecuteOperatorRequest.FromString(request).inputs}


def sent(service: ScriptedService) -> list[dict[str, tensor_pb2.Tensor]]:
    return [inputs_of(request) for _, request in service.requests]


def has_values(service: ScriptedService) -> list[bool]:
    """Says of each request whether the values of `self` were in it."""
    return [inputs["self"].HasField("data") for inputs in sent(service)]


@pytest.fixture
def asking(service: ScriptedService) -> Iterator[ScriptedService]:
    """Refuses what comes without values."""
    with serve(shape_only=False) as server, grpc.insecure_channel(server.target) as channel:
        service.answer = relay_to(service, channel)
        yield service


@pytest.mark.parametrize("by_name", [False, True], ids=["method", "execute"])
async def test_of_an_unread_input_the_shape_alone_is_sent(
    connect: Connect, service: ScriptedService, by_name: bool
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


@pytest.mark.parametrize(
    ("outputs", "values"),
    [
        (("grad_input",), {"weight"}),
        (("grad_weight", "grad_bias"), {"input"}),
        (("grad_bias",), set()),
        (None, {"input", "weight"}),
    ],
)
async def test_values_go_with_the_outputs_that_depend_on_them(
    connect: Connect, service: ScriptedService, outputs: tuple[str, ...] | None, values: set[str]
) -> None:
    with serve() as server, grpc.insecure_channel(server.target) as channel:
        service.answer = relay_to(service, channel)
        await maybe_await(connect(service.address).convolution_backward(ROW, ROW, ROW[..., :1], outputs=outputs))
    (inputs,) = sent(service)
    assert {name for name, each in inputs.items() if each.HasField("data")} == values | {"grad_output"}


async def test_every_array_is_sent_where_that_is_asked_for(connect: Connect, service: ScriptedService) -> None:
    client = connect(service.address, shape_only=False)
    await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, INPUT))
    await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
    assert has_values(service) == [True, False]


async def test_inputs_that_are_read_are_always_sent(connect: Connect, service: ScriptedService) -> None:
    await maybe_await(connect(service.address).roi_align_v2_backward(GRAD, GRAD, (1, 1, 2, 2), 1, 1))
    (inputs,) = sent(service)
    assert all(each.HasField("data") for each in inputs.values())


async def test_values_that_the_server_asks_for_are_sent_at_once_and_from_then_on(
    connect: Connect, asking: ScriptedService
) -> None:
    # It is no retry of a failure: the same call is completed.
    client = connect(asking.address, retries=0)
    for _ in range(2):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(asking) == [False, True, True]
    assert sent(asking)[1]["self"].data == INPUT.tobytes()
    # Another operator may be another matter.
    await maybe_await(client.replication_pad2d_backward(PADDED, INPUT, (1, 1, 1, 1)))
    assert has_values(asking)[3:] == [False, True]


async def test_another_client_knows_nothing_of_it(connect: Connect, asking: ScriptedService) -> None:
    for _ in range(2):
        await maybe_await(connect(asking.address).adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(asking) == [False, True] * 2


async def test_a_bare_shape_raises_and_is_remembered(connect: Connect, asking: ScriptedService) -> None:
    client = connect(asking.address)
    with pytest.raises(aclgrad.InputValuesRequiredError, match="send the array") as caught:
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
    assert caught.value.field == "inputs[self]"
    await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(asking) == [False, True]


async def test_a_server_that_is_never_content_is_asked_twice(connect: Connect, service: ScriptedService) -> None:
    service.answer = failing(REQUIRED)
    with pytest.raises(aclgrad.InputValuesRequiredError):
        await maybe_await(connect(service.address).adaptive_avg_pool2d_backward(GRAD, INPUT))
    assert has_values(service) == [False, True]


def test_runs_of_one_batch_at_once(asking: ScriptedService) -> None:
    """What one run was asked for, the others have, too: none takes that for a refusal of all values."""
    for _ in range(5):
        with aclgrad.Client(asking.address) as client, ThreadPoolExecutor(4) as threads:
            batch = client.batch()
            for _ in range(3):
                batch.adaptive_avg_pool2d_backward(GRAD, INPUT)
            for run in [threads.submit(batch.run) for _ in range(4)]:
                assert [output.sum() for output in run.result(60)] == [1.0] * 3


def test_threads_share_what_one_of_them_was_told(asking: ScriptedService) -> None:
    with aclgrad.Client(asking.address) as client, ThreadPoolExecutor(8) as threads:
        calls = [threads.submit(client.adaptive_avg_pool2d_backward, GRAD, INPUT) for _ in range(200)]
        for call in calls:
            call.result(60)
    assert has_values(asking).count(True) == 200
    # No call that began after the first answer lacks the values.
    assert has_values(asking).count(False) <= 8
