"""Requests and replies, compared with what the generated messages write and read."""

import random

import numpy as np
import pytest

from aclgrad.tensors import DTYPES, TensorType
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.messages import OperatorCall, decode_request, decode_response, encode_request, response_prefix

from .calls import CALLS, message_of, tensor
from .wire_format import UNKNOWN_FIELDS, length_field, varint_field

FLOAT32 = DTYPES["float32"]


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_generated_messages_read_what_we_write(call: OperatorCall) -> None:
    assert pb.ExecuteOperatorRequest.FromString(encode_request(call)) == message_of(call)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_we_read_what_generated_messages_write(call: OperatorCall) -> None:
    assert decode_request(message_of(call).SerializeToString()) == call


@pytest.mark.parametrize("name", ["empty", "data", "shape_only", "no_elements", "large"])
def test_bytes_are_those_of_generated_messages(name: str) -> None:
    assert encode_request(CALLS[name]) == message_of(CALLS[name]).SerializeToString()


def test_inputs_are_views_of_the_request() -> None:
    data = message_of(CALLS["large"]).SerializeToString()
    for each in decode_request(data).inputs:
        assert np.shares_memory(np.frombuffer(each.data, np.uint8), np.frombuffer(data, np.uint8))


@pytest.mark.parametrize(("shape", "size"), [((2, 3), 24), ((), 4), ((0, 9), 0), ((2**21,), 2**23)], ids=str)
def test_reply_is_the_prefix_and_the_payload(shape: tuple[int, ...], size: int) -> None:
    payload = random.Random(1).randbytes(size)
    data = response_prefix("out", TensorType(FLOAT32, shape)) + payload
    expected = tensor_pb2.Tensor(name="out", data_type=FLOAT32.wire, shape=shape, data=payload)
    assert data == pb.ExecuteOperatorResponse(outputs=[expected]).SerializeToString()
    assert decode_response(data) == (tensor("out", shape, payload),)


FIELDS = {
    "operator": length_field(1, b"pool"),
    "first": length_field(2, length_field(1, b"a") + varint_field(2, 1) + length_field(4, b"1234")),
    "second": length_field(
        2, length_field(4, b"5678") + length_field(3, b"\x01") + length_field(1, b"b") + b"\x10\x01"
    ),
    "attribute": length_field(3, length_field(1, b"k") + length_field(2, varint_field(2, 7))),
}


@pytest.mark.parametrize("order", [(3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)], ids=str)
def test_fields_in_any_order(order: tuple[int, ...]) -> None:
    data = b"".join(list(FIELDS.values())[index] for index in order)
    call = decode_request(data)
    assert (call.operator, call.attributes) == ("pool", {"k": 7})
    assert {each.name: bytes(each.data) for each in call.inputs} == {"a": b"1234", "b": b"5678"}


@pytest.mark.parametrize("unknown", UNKNOWN_FIELDS.values(), ids=UNKNOWN_FIELDS)
def test_unknown_fields_are_ignored(unknown: bytes) -> None:
    inner = unknown + length_field(1, b"a") + varint_field(2, 1) + unknown + length_field(4, b"1234") + unknown
    call = decode_request(unknown + length_field(2, inner) + unknown)
    assert [(each.name, bytes(each.data)) for each in call.inputs] == [("a", b"1234")]


DATA, MEMORY = length_field(4, b"1234"), length_field(5, length_field(1, b"/shm"))


@pytest.mark.parametrize(
    ("content", "held"),
    [
        (DATA + length_field(4, b"last"), b"last"),
        (length_field(4, b"longer than the last") + DATA, b"1234"),
        (DATA + length_field(4, b""), b""),
        (DATA + MEMORY, None),
        (MEMORY + DATA, b"1234"),
        (DATA + MEMORY + length_field(4, b"last"), b"last"),
        (b"", None),
    ],
    ids=["twice", "shorter", "empty_last", "memory_last", "data_last", "back_and_forth", "neither"],
)
def test_the_last_content_counts(content: bytes, held: bytes | None) -> None:
    body = length_field(1, b"a") + varint_field(2, 1) + content
    parsed = tensor_pb2.Tensor.FromString(body)
    assert (parsed.data if parsed.HasField("data") else None) == held  # what protobuf makes of the same bytes
    (view,) = decode_request(length_field(2, body)).inputs
    assert (bytes(view.data) if isinstance(view.data, memoryview) else None) == held
