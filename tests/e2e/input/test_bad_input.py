"""Whatever a client sends: a typed error that names the field and the remedy, and a server that goes on."""

import random
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import status_pb2

import aclgrad
from aclgrad.errors import from_status
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import AnyClient, calls_in, maybe_await, wait_until
from tools.serving import Server

POOLING = "adaptive_avg_pool2d_backward"
GRAD = np.ones((1, 2, 2), np.float32)
SHAPE = (1, 4, 4)


@pytest.fixture(autouse=True)
def _server_goes_on(server: Server) -> Iterator[None]:
    """After every test the device holds no more memory than before, and a good call is answered."""
    with aclgrad.Client(server.address) as client:
        before = client.server_status().devices[0].pool.allocated_bytes
        yield
        status = client.server_status()
        assert status.devices[0].pool.allocated_bytes == before == 0
        assert status.devices[0].leased_stream_count == 0
        assert calls_in(status.queue) == 0
        assert client.adaptive_avg_pool2d_backward(GRAD, SHAPE).sum() == pytest.approx(4)


def inputs(grad_output: Any = GRAD, shape: Any = SHAPE, **more: Any) -> dict[str, Any]:
    return {"grad_output": grad_output, "self": shape, **more}


# More of them: tests/server/calls/test_validation.py.
BAD_CALLS: dict[str, tuple[str, dict[str, Any], type[aclgrad.AclgradError], str]] = {
    "unknown_operator": ("nothing", inputs(), aclgrad.UnknownOperatorError, "operator"),
    "missing_input": (POOLING, {"grad_output": GRAD}, aclgrad.InvalidFieldError, "inputs[self]"),
    "wrong_dtype": (POOLING, inputs(GRAD.astype(np.int32)), aclgrad.InvalidFieldError, "inputs[grad_output].data_type"),
    "overflow": (POOLING, inputs(shape=(1, 2**40, 2**40)), aclgrad.InvalidFieldError, "inputs[self].shape"),
    "over_the_limit": (POOLING, inputs(shape=(1, 2**20, 2**20)), aclgrad.LimitExceededError, "inputs[self].shape"),
    "long_operator": ("x" * 20_000, inputs(), aclgrad.UnknownOperatorError, "operator"),
    "long_input": (POOLING, {"y" * 20_000: GRAD}, aclgrad.InvalidFieldError, "inputs[grad_output]"),
    "many_inputs": (POOLING, {f"input{i}": GRAD for i in range(500)}, aclgrad.InvalidFieldError, "inputs"),
}


@pytest.mark.parametrize(("operator", "given", "kind", "field"), BAD_CALLS.values(), ids=BAD_CALLS)
async def test_bad_call_is_told_what_is_wrong(
    client: AnyClient, operator: str, given: dict[str, Any], kind: type[aclgrad.AclgradError], field: str
) -> None:
    with pytest.raises(aclgrad.AclgradError) as caught:
        await maybe_await(client.execute(operator, given))
    error = caught.value
    assert (type(error), error.field) == (kind, field)
    assert error.remedy
    assert error.remedy in str(error)
    assert len(str(error)) < 1000
    assert error.request_id


OVERFLOWING = {
    "output_with_a_zero": (
        "roi_align_v2_backward",
        {"grad_output": np.ones((0, 1, 2, 2), np.float32), "boxes": np.ones((0, 5), np.float32)},
        {"input_shape": (2**62, 1, 4, 0), "pooled_height": 2, "pooled_width": 2},
    ),
    "padding_that_cancels": (
        "replication_pad2d_backward",
        {"grad_output": np.ones((1, 4, 4), np.float32), "self": (1, 4, 4)},
        {"padding": (2**63 - 1, -(2**63 - 1), 0, 0)},
    ),
}


@pytest.mark.parametrize("call", OVERFLOWING.values(), ids=OVERFLOWING)
async def test_sizes_that_leave_64_bits_are_refused(client: AnyClient, call: tuple) -> None:
    with pytest.raises((aclgrad.InvalidFieldError, aclgrad.LimitExceededError)):
        await maybe_await(client.execute(*call))


def test_a_name_cannot_begin_a_line_of_the_log(server: Server) -> None:
    forged = "2026-01-01T00:00:00Z ERROR root: forged"
    with aclgrad.Client(server.address) as client, pytest.raises(aclgrad.InvalidFieldError):
        client.execute(POOLING, inputs(**{f"x\n{forged}": GRAD}))
    wait_until(lambda: forged in server.log)
    assert not any(line.startswith(forged) for line in server.log.splitlines())


def execute(server: Server, request: bytes) -> aclgrad.AclgradError:
    """Returns the error that these bytes are answered with."""
    with server.channel() as channel:
        method = channel.unary_unary("/aclgrad.v1.OperatorService/ExecuteOperator")
        with pytest.raises(grpc.RpcError) as caught:
            method(request, timeout=60)
    trailers = dict(caught.value.trailing_metadata())
    error = from_status(status_pb2.Status.FromString(trailers["grpc-status-details-bin"]))
    assert error is not None
    assert error.code is caught.value.code()
    return error


def message(data: bytes | None, shape: tuple[int, ...] = GRAD.shape, data_type: int = 1) -> bytes:
    request = pb.ExecuteOperatorRequest(operator=POOLING)
    request.inputs.add(name="grad_output", data_type=data_type, shape=shape, data=data)
    request.inputs.add(name="self", data_type=1, shape=SHAPE)
    return request.SerializeToString()


WRONG_MESSAGES = {
    "short_data": (message(bytes(15)), "inputs[grad_output].data"),
    "long_data": (message(bytes(17)), "inputs[grad_output].data"),
    "no_data": (message(None), "inputs[grad_output].data"),
    "no_data_type": (message(GRAD.tobytes(), data_type=12), "inputs[grad_output].data_type"),
}


@pytest.mark.parametrize(("request_bytes", "field"), WRONG_MESSAGES.values(), ids=WRONG_MESSAGES)
def test_a_tensor_that_is_not_what_it_says(server: Server, request_bytes: bytes, field: str) -> None:
    error = execute(server, request_bytes)
    assert (type(error), error.field) == (aclgrad.InvalidFieldError, field)


def test_bytes_that_are_no_message(server: Server) -> None:
    assert type(execute(server, b"\x0f")) is aclgrad.MalformedRequestError


def test_random_and_damaged_bytes(server: Server) -> None:
    generator = random.Random(1)
    good = message(GRAD.tobytes())
    for _ in range(50):
        assert isinstance(execute(server, generator.randbytes(generator.randrange(200))), aclgrad.RequestError)
        cut = good[: generator.randrange(len(good))]
        assert isinstance(execute(server, cut), aclgrad.RequestError)


@pytest.mark.parametrize("method", ["ListOperators", "GetServerStatus"])
def test_other_methods_refuse_what_is_no_message(server: Server, method: str) -> None:
    with server.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"/aclgrad.v1.OperatorService/{method}")(b"\x0f", timeout=60)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_message_of_nothing_but_fields_is_refused_early(server: Server) -> None:
    assert "more than 20000 fields" in str(execute(server, b"\x78\x00" * 1_000_000))


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e12])
async def test_an_endless_time_limit_is_none(client: AnyClient, timeout_s: float) -> None:
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=timeout_s))
    assert gradient.sum() == 4
