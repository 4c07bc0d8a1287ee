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
from tools.calling import AnyClient, calls_in, maybe_await
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


BAD_CALLS: dict[str, tuple[str, dict[str, Any], dict[str, Any], type[aclgrad.AclgradError], str]] = {
    "unknown_operator": ("nothing", inputs(), {}, aclgrad.UnknownOperatorError, "operator"),
    "no_operator": ("", inputs(), {}, aclgrad.UnknownOperatorError, "operator"),
    "missing_input": (POOLING, {"grad_output": GRAD}, {}, aclgrad.InvalidFieldError, "inputs[self]"),
    "extra_input": (POOLING, inputs(mask=GRAD), {}, aclgrad.InvalidFieldError, "inputs[mask]"),
    "misnamed_input": (
        POOLING,
        {"grad": GRAD, "self": SHAPE},
        {},
        aclgrad.InvalidFieldError,
        "inputs[grad_output]",
    ),
    "extra_attribute": (POOLING, inputs(), {"stride": [2, 2]}, aclgrad.InvalidFieldError, "attributes[stride]"),
    "wrong_dtype": (
        POOLING,
        inputs(GRAD.astype(np.int32)),
        {},
        aclgrad.InvalidFieldError,
        "inputs[grad_output].data_type",
    ),
    "dtypes_differ": (
        POOLING,
        inputs(shape=np.zeros(SHAPE, np.float16)),
        {},
        aclgrad.InvalidFieldError,
        "inputs[self].data_type",
    ),
    "wrong_rank": (POOLING, inputs(shape=(4, 4)), {}, aclgrad.InvalidFieldError, "inputs[self].shape"),
    "wrong_shape": (POOLING, inputs(shape=(3, 4, 4)), {}, aclgrad.InvalidFieldError, "inputs[self].shape"),
    "negative_size": (POOLING, inputs(shape=(1, -4, 4)), {}, aclgrad.InvalidFieldError, "inputs[self].shape"),
    "overflow": (POOLING, inputs(shape=(1, 2**40, 2**40)), {}, aclgrad.InvalidFieldError, "inputs[self].shape"),
    "over_the_limit": (POOLING, inputs(shape=(1, 2**20, 2**20)), {}, aclgrad.LimitExceededError, "inputs[self].shape"),
}


@pytest.mark.parametrize(("operator", "given", "attributes", "kind", "field"), BAD_CALLS.values(), ids=BAD_CALLS)
async def test_bad_call_is_told_what_is_wrong(
    client: AnyClient,
    operator: str,
    given: dict[str, Any],
    attributes: dict[str, Any],
    kind: type[aclgrad.AclgradError],
    field: str,
) -> None:
    with pytest.raises(aclgrad.AclgradError) as caught:
        await maybe_await(client.execute(operator, given, attributes))
    error = caught.value
    assert type(error) is kind
    assert error.field == field
    assert error.remedy
    assert error.remedy in str(error)
    assert error.request_id


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


@pytest.mark.parametrize("size", [0, 15, 17, 4096])
def test_data_of_another_length_than_its_shape(server: Server, size: int) -> None:
    error = execute(server, message(bytes(size)))
    assert type(error) is aclgrad.InvalidFieldError
    assert error.field == "inputs[grad_output].data"


def test_values_that_the_operator_reads_are_missing(server: Server) -> None:
    error = execute(server, message(None))
    assert type(error) is aclgrad.InvalidFieldError
    assert error.field == "inputs[grad_output].data"


@pytest.mark.parametrize("data_type", [0, 12, -1])
def test_data_type_that_is_none(server: Server, data_type: int) -> None:
    error = execute(server, message(GRAD.tobytes(), data_type=data_type))
    assert type(error) is aclgrad.InvalidFieldError
    assert error.field == "inputs[grad_output].data_type"


def test_bytes_that_are_no_message(server: Server) -> None:
    assert type(execute(server, b"\x0f")) is aclgrad.MalformedRequestError


@pytest.mark.parametrize("seed", range(4))
def test_random_and_damaged_bytes(server: Server, seed: int) -> None:
    generator = random.Random(seed)
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
