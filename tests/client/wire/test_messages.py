"""Requests and replies, compared with what the generated messages write and read."""

import random
from dataclasses import replace

import numpy as np
import pytest

from aclgrad.errors import InvalidFieldError, MalformedRequestError
from aclgrad.sources import SHAPE_ONLY, in_message
from aclgrad.tensors import DTYPES, DType, TensorType, TensorView, View
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1 import tensor_pb2
from aclgrad.wire.messages import (
    OperatorCall,
    decode_request,
    decode_response,
    encode_request,
    response_prefix,
)

from . import wire_format as wire
from .agreement import KINDS, assert_agrees_with_protobuf
from .wire_format import UNKNOWN_FIELDS, length_field, varint_field

FLOAT32 = DTYPES["float32"]
ATTRIBUTES = {
    "flag": True,
    "count": -3,
    "scale": 0.25,
    "sizes": (1, -2, 2**40),
    "none": (),
    "mask": (True, False),
    "type": DTYPES["bfloat16"],
}


def tensor(name: str, shape: tuple[int, ...], data: bytes | None, dtype: str = "float32") -> TensorView:
    return TensorView(
        name, TensorType(DTYPES[dtype], shape), SHAPE_ONLY if data is None else in_message(memoryview(data))
    )


CALLS = {
    "empty": OperatorCall("", (), {}),
    "attributes": OperatorCall("roi", (), ATTRIBUTES),
    "data": OperatorCall("pool", (tensor("grad_output", (2, 3), bytes(range(24))),), {}),
    "shape_only": OperatorCall("pool", (tensor("self", (4, 5, 6), None),), {}),
    "no_elements": OperatorCall("pool", (tensor("self", (4, 0), b""), tensor("scalar", (), b"1234")), {}),
    "large": OperatorCall("pool", (tensor("a", (2**20,), bytes(2**22)), tensor("b", (7,), bytes(7), "int8")), {}),
    "view": OperatorCall(
        "pool",
        (
            replace(tensor("a", (2, 3), bytes(28)), view=View(1, (1, 2))),
            replace(tensor("b", (2**20,), bytes(2**22)), view=View(0, (0,))),
            replace(tensor("c", (5,), bytes(24)), view=View(1)),
        ),
        {},
    ),
    "negative": OperatorCall("pool", (tensor("self", (-1, 2**62), None, "bfloat16"),), {}),
}


def message_of(call: OperatorCall) -> pb.ExecuteOperatorRequest:
    """Returns the call as a user of generated stubs would write it."""
    message = pb.ExecuteOperatorRequest(operator=call.operator)
    for each in call.inputs:
        added = message.inputs.add(name=each.name, data_type=each.type.dtype.wire, shape=each.type.shape)
        if each.data is not None:
            added.data = bytes(each.data)
        if each.view is not None:
            added.ClearField("data_type")
            added.view.data_type = each.type.dtype.wire
            added.view.offset = each.view.offset
            added.view.strides.extend(each.view.strides)
    kinds = {bool: "bool_value", int: "int_value", float: "double_value"}
    for name, value in call.attributes.items():
        if isinstance(value, DType):
            message.attributes[name].data_type_value = value.wire
        elif value and isinstance(value, tuple) and isinstance(value[0], bool):
            message.attributes[name].bools_value.values.extend(value)
        elif isinstance(value, tuple):
            message.attributes[name].ints_value.values.extend(value)
            message.attributes[name].ints_value.SetInParent()
        else:
            setattr(message.attributes[name], kinds[type(value)], value)
    return message


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_generated_messages_read_what_we_write(call: OperatorCall) -> None:
    assert pb.ExecuteOperatorRequest.FromString(encode_request(call)) == message_of(call)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_we_read_what_generated_messages_write(call: OperatorCall) -> None:
    assert decode_request(message_of(call).SerializeToString()) == call


def test_inputs_are_views_of_the_request() -> None:
    data = message_of(CALLS["large"]).SerializeToString()
    for each in decode_request(data).inputs:
        assert np.shares_memory(np.frombuffer(each.data, np.uint8), np.frombuffer(data, np.uint8))


@pytest.mark.parametrize(
    ("shape", "size"), [((2, 3), 24), ((), 4), ((32,), 128), ((0, 9), 0), ((2**21,), 2**23)], ids=str
)
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


LONG = wire.key(4, wire.LENGTH) + wire.varint(4, 1) + b"data"
ODD = [
    wire.group(7, length_field(2, length_field(4, b"inside a group"))),
    wire.group(7, wire.group(8, b"")) + length_field(2, wire.group(7, length_field(4, b"a")) + length_field(1, b"a")),
    length_field(4, b"at the top") + length_field(3, length_field(4, b"in another field")),
    varint_field(2, 4) + length_field(2, varint_field(4, 7) + varint_field(2, 1)),
    *(wire.key(2, wire.LENGTH) + wire.varint(len(LONG) + 2, padding) + LONG + b"\x10\x01" for padding in (1, 4, 5)),
    wire.key(1, wire.GROUP_END),
    wire.key(1, wire.GROUP_START),
    wire.key(1, 6),
    wire.key(1, 7) + b"\0",
    b"\x80" * 11 + b"\x01",
    wire.key(2, wire.LENGTH) + wire.varint(4, 5) + b"data",
    wire.key(2, wire.LENGTH) + wire.varint(2**63) + b"data",
    length_field(2, wire.key(4, wire.LENGTH) + wire.varint(9) + b"data"),
    length_field(2, wire.key(4, wire.GROUP_START)) + wire.key(4, wire.GROUP_END),
]


@pytest.mark.parametrize("data", ODD)
def test_odd_bytes_are_read_as_protobuf_reads_them(data: bytes) -> None:
    for buffer in (data, UNKNOWN_FIELDS["group"] + data + UNKNOWN_FIELDS["fixed64"]):
        assert_agrees_with_protobuf(KINDS["request"], buffer)


def test_every_cut_is_an_error_of_ours_or_a_message() -> None:
    data = message_of(CALLS["attributes"]).SerializeToString() + message_of(CALLS["data"]).SerializeToString()
    for cut in range(len(data)):
        assert_agrees_with_protobuf(KINDS["request"], data[:cut])


@pytest.mark.parametrize("seed", range(2))
def test_random_and_damaged_bytes_are_read_as_protobuf_reads_them(seed: int) -> None:
    generator = random.Random(seed)
    good = message_of(CALLS["attributes"]).SerializeToString() + message_of(CALLS["data"]).SerializeToString()
    for _ in range(300):
        assert_agrees_with_protobuf(KINDS["request"], generator.randbytes(generator.randrange(40)))
        damaged = bytearray(good)
        for _ in range(generator.randrange(1, 4)):
            damaged[generator.randrange(len(good))] = generator.randrange(256)
        assert_agrees_with_protobuf(KINDS["request"], bytes(damaged))


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (OperatorCall("x", (), {"scale": 2**63}), "attributes[scale]"),
        (OperatorCall("x", (), {"sizes": [1.5]}), "attributes[sizes]"),
        (OperatorCall("x", (), {"mode": 1j}), "attributes[mode]"),
        (OperatorCall("x", (tensor("self", (2**63,), None),), {}), "inputs[self].shape"),
    ],
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
)
def test_message_without_a_meaning_is_refused_by_name(body: bytes, field: str) -> None:
    with pytest.raises(InvalidFieldError) as caught:
        decode_request(body)
    assert caught.value.field == field


def test_a_server_that_knows_no_views_refuses_them() -> None:
    """It sees no data type, and does not read the bytes in another order."""
    message = pb.ExecuteOperatorRequest.FromString(encode_request(CALLS["view"]))
    for each in message.inputs:
        each.ClearField("view")
    with pytest.raises(InvalidFieldError, match="data_type is 0, which is no data type"):
        decode_request(message.SerializeToString())


def test_a_view_has_the_data_type_alone() -> None:
    message = pb.ExecuteOperatorRequest.FromString(encode_request(CALLS["view"]))
    message.inputs[1].data_type = message.inputs[1].view.data_type
    with pytest.raises(InvalidFieldError, match=r"inputs\[b\].data_type is 1 beside that of the view"):
        decode_request(message.SerializeToString())
    message.inputs[1].data_type = message.inputs[1].view.data_type = 0
    with pytest.raises(InvalidFieldError, match=r"inputs\[b\].view.data_type is 0"):
        decode_request(message.SerializeToString())


@pytest.mark.parametrize("strides", [(1, 2), (0, 0), (-(2**28), 1), (1,), ()], ids=str)
def test_no_output_has_a_view(strides: tuple[int, ...]) -> None:
    """A client that followed it could read memory of others."""
    view = tensor_pb2.View(strides=strides, data_type=FLOAT32.wire)
    for size in (6, 2**16):
        output = tensor_pb2.Tensor(name="out", shape=(2, size // 2), data=bytes(4 * size), view=view)
        reply = pb.ExecuteOperatorResponse(outputs=[output])
        with pytest.raises(MalformedRequestError, match="an output has a view"):
            decode_response(reply.SerializeToString())
