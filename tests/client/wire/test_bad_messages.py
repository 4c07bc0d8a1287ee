"""Bytes and values that are no message: refused as protobuf refuses them, and by name."""

import random

import pytest
from google.protobuf.message import DecodeError

from aclgrad.errors import AclgradError, InvalidFieldError, MalformedRequestError
from aclgrad.tensors import DTYPES
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, decode_request, decode_response, encode_request

from .calls import CALLS, message_of, tensor
from .wire_format import length_field, varint_field


def test_every_cut_is_an_error_of_ours_or_a_message() -> None:
    data = message_of(CALLS["attributes"]).SerializeToString() + message_of(CALLS["data"]).SerializeToString()
    for cut in range(len(data)):
        agree_with_protobuf(data[:cut])


@pytest.mark.parametrize("seed", range(8))
def test_random_and_damaged_bytes_are_read_as_protobuf_reads_them(seed: int) -> None:
    generator = random.Random(seed)
    good = message_of(CALLS["attributes"]).SerializeToString() + message_of(CALLS["data"]).SerializeToString()
    for _ in range(300):
        agree_with_protobuf(generator.randbytes(generator.randrange(40)))
        damaged = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(len(good))] = generator.randrange(256)
        agree_with_protobuf(bytes(damaged))


def agree_with_protobuf(data: bytes) -> None:
    """Both read the same tensors, or both refuse; we also refuse data types and attributes that mean nothing."""
    try:
        expected = pb.ExecuteOperatorRequest.FromString(data)
    except DecodeError:
        with pytest.raises(MalformedRequestError):
            decode_request(data)
        return
    try:
        call = decode_request(data)
    except InvalidFieldError:
        known = {dtype.wire for dtype in DTYPES.values()}
        senseless = [each for each in expected.inputs if each.data_type not in known]
        assert senseless or any(value.WhichOneof("value") is None for value in expected.attributes.values())
        return
    assert call.operator == expected.operator
    held = [each.data if each.HasField("data") else None for each in expected.inputs]
    assert [None if each.data is None else bytes(each.data) for each in call.inputs] == held
    assert [each.type.shape for each in call.inputs] == [tuple(each.shape) for each in expected.inputs]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (OperatorCall("x", (), {"scale": 2**63}), "attributes[scale]"),
        (OperatorCall("x", (), {"sizes": [1.5]}), "attributes[sizes]"),
        (OperatorCall("x", (), {"mode": "nearest"}), "attributes[mode]"),
        (OperatorCall("x", (tensor("self", (2**63,), None),), {}), "inputs[self].shape"),
    ],
    ids=["large", "fraction", "text", "large_size"],
)
def test_what_the_wire_cannot_hold_is_refused_by_name(call: OperatorCall, field: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        encode_request(call)
    assert caught.value.field == field
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (length_field(2, length_field(1, b"self")), "inputs[self].data_type"),
        (length_field(2, length_field(1, b"self") + varint_field(2, 99)), "inputs[self].data_type"),
        (length_field(3, length_field(1, b"scale")), "attributes[scale]"),
    ],
    ids=["no_data_type", "unknown_data_type", "no_value"],
)
def test_message_without_a_meaning_is_refused_by_name(body: bytes, field: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        decode_request(body)
    assert caught.value.field == field


def test_reply_that_is_no_message_is_an_error_of_ours() -> None:
    with pytest.raises(AclgradError, match="byte 0"):
        decode_response(b"\x0f")
