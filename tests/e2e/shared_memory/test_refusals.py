"""Ranges that the server must not touch. Names and kinds of objects are in tests/server/calls/test_shared_memory.py."""

from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.sources import SharedRange
from aclgrad.tensors import view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.operator_service_pb2_grpc import OperatorServiceStub
from aclgrad.wire.messages import OperatorCall, encode_request
from tests.e2e.shared_objects import Objects
from tools.raw_calls import error_of, open_channel
from tools.serving import Server

ARRAY = np.arange(1, 97, dtype=np.float32).reshape(2, 3, 4, 4)
CALL = OperatorCall(
    "adaptive_avg_pool2d_backward", (view_of_array("grad_output", ARRAY), view_of_array("self", ARRAY)), {}
)
GRAD = ARRAY.nbytes
"""Of the input and of the output."""


@pytest.fixture
def stub(shared_server: Server) -> Iterator[OperatorServiceStub]:
    with open_channel(shared_server) as channel:
        yield OperatorServiceStub(channel)


def request_for(range: SharedRange, *, as_output: bool) -> pb.ExecuteOperatorRequest:
    """Returns a message that names the range for its first input or for its output, whatever the range is."""
    message = pb.ExecuteOperatorRequest.FromString(encode_request(CALL))
    place = message.output_memory["out"] if as_output else message.inputs[0].shared_memory
    place.name, place.offset_bytes, place.size_bytes = range.name, range.offset, range.nbytes
    return message


def refusal(stub: OperatorServiceStub, message: pb.ExecuteOperatorRequest) -> aclgrad.AclgradError:
    with pytest.raises(grpc.RpcError) as caught:
        stub.ExecuteOperator(message, timeout=10)
    error = error_of(caught.value)
    assert error.remedy
    assert len(str(error)) < 1000
    return error


RANGES = {
    "one_beyond": (1, GRAD),
    "at_the_end": (GRAD, GRAD),
    "negative_offset": (-1, GRAD),
    "largest_offset": (2**63 - 1, GRAD),
    "end_overflows": (2**63 - GRAD, GRAD),
    "negative_size": (0, -GRAD),
    "no_size": (0, 0),
    "largest_size": (0, 2**63 - 1),
    "one_less": (0, GRAD - 1),
}


@pytest.mark.parametrize("as_output", [False, True], ids=["input", "output"])
@pytest.mark.parametrize(("offset", "size_bytes"), RANGES.values(), ids=RANGES)
def test_ranges(stub: OperatorServiceStub, objects: Objects, offset: int, size_bytes: int, as_output: bool) -> None:
    named = objects.create("x", b"\x77" * GRAD)
    message = request_for(SharedRange(named.name, offset, size_bytes), as_output=as_output)
    error = refusal(stub, message)
    assert type(error) is aclgrad.InvalidFieldError
    assert objects.content(named) == b"\x77" * GRAD
