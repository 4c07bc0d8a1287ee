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


# More of them: tests/server/devices/test_validation.py.
BAD_CALLS: dict[str, tuple[tuple[Any, ...], type[aclgrad.AclgradError], str]] = {
    "unknown_operator": (("nothing", inputs()), aclgrad.UnknownOperatorError, "operator"),
    "over_the_limit": ((POOLING, inputs(shape=(1, 2**20, 2**20))), aclgrad.LimitExceededError, "inputs[self].shape"),
    "long_operator": (("x" * 20_000, inputs()), aclgrad.UnknownOperatorError, "operator"),
    "long_input": ((POOLING, {"y" * 20_000: GRAD}), aclgrad.InvalidFieldError, "inputs[grad_output]"),
    "many_inputs": ((POOLING, {f"input{i}": GRAD for i in range(500)}), aclgrad.InvalidFieldError, "inputs"),
    "output_with_a_zero_beyond_64_bits": (
        (
            "roi_align_v2_backward",
            {"grad_output": np.ones((0, 1, 2, 2), np.float32), "boxes": np.ones((0, 5), np.float32)},
            {"input_shape": (2**62, 1, 4, 0), "pooled_height": 2, "pooled_width": 2},
        ),
        aclgrad.LimitExceededError,
        "outputs[grad_input]",
    ),
    "padding_that_cancels_beyond_64_bits": (
        (
            "replication_pad2d_backward",
            {"grad_output": np.ones((1, 4, 4), np.float32), "self": (1, 4, 4)},
            {"padding": (2**63 - 1, -(2**63 - 1), 0, 0)},
        ),
        aclgrad.InvalidFieldError,
        "attributes[padding][0]",
    ),
}


@pytest.mark.parametrize(("call", "kind", "field"), BAD_CALLS.values(), ids=BAD_CALLS)
async def test_bad_call_is_told_what_is_wrong(
    client: AnyClient, call: tuple[Any, ...], kind: type[aclgrad.AclgradError], field: str
) -> None:
    with pytest.raises(aclgrad.AclgradError) as caught:
        await maybe_await(client.execute(*call))
    error = caught.value
    assert (type(error), error.field) == (kind, field)
    assert error.remedy
    assert error.remedy in str(error)
    assert len(str(error)) < 1000
    assert error.request_id


def execute(server: Server, request: bytes, name: str = "ExecuteOperator") -> aclgrad.AclgradError:
    """Returns the error that these bytes are answered with."""
    with server.channel() as channel:
        method = channel.unary_unary(f"/aclgrad.v1.OperatorService/{name}")
        with pytest.raises(grpc.RpcError) as caught:
            method(request, timeout=60)
    trailers = dict(caught.value.trailing_metadata())
    error = from_status(status_pb2.Status.FromString(trailers["grpc-status-details-bin"]))
    assert error is not None
    assert error.code is caught.value.code()
    return error


def test_bytes_that_are_no_message(server: Server) -> None:
    assert type(execute(server, b"\x0f")) is aclgrad.MalformedRequestError
    assert "more than 20000 fields" in str(execute(server, b"\x78\x00" * 1_000_000))
    request = pb.ExecuteOperatorRequest(operator=POOLING)
    request.inputs.add(name="grad_output", data_type=1, shape=GRAD.shape, data=GRAD.tobytes())
    request.inputs.add(name="self", data_type=1, shape=SHAPE)
    generator, good = random.Random(1), request.SerializeToString()
    for _ in range(50):
        assert isinstance(execute(server, generator.randbytes(generator.randrange(200))), aclgrad.RequestError)
        cut = good[: generator.randrange(len(good))]
        assert isinstance(execute(server, cut), aclgrad.RequestError)
    for method in ("ListOperators", "GetServerStatus"):
        assert type(execute(server, b"\x0f", method)) is aclgrad.MalformedRequestError
