"""Payloads are found where they are, and everything else is left as it was."""

import numpy as np
import pytest

from aclgrad.errors import MalformedRequestError
from aclgrad.wire.scan import extract_payloads, payload_index, varint

from . import wire_format as wire
from .wire_format import length_field

PATH = (2, 4)


def message(payload: bytes) -> bytes:
    return length_field(1, b"name") + length_field(2, length_field(1, b"x") + length_field(4, payload))


def test_payload_is_a_view_of_the_message() -> None:
    data = message(b"p" * 1000)
    _, (payload,) = extract_payloads(data, PATH)
    assert bytes(payload) == b"p" * 1000
    assert np.shares_memory(np.frombuffer(payload, np.uint8), np.frombuffer(data, np.uint8))


def test_the_rest_names_the_payload_in_its_place() -> None:
    rest, payloads = extract_payloads(message(b"first") + message(b"second"), PATH)
    placeholders = [bytes(each) for each in extract_payloads(rest, PATH)[1]]
    assert [bytes(payloads[payload_index(each)]) for each in placeholders] == [b"first", b"second"]
    assert rest == message(placeholders[0]) + message(placeholders[1])


@pytest.mark.parametrize("unknown", wire.UNKNOWN_FIELDS.values(), ids=wire.UNKNOWN_FIELDS)
def test_unknown_fields_are_kept(unknown: bytes) -> None:
    inner = length_field(2, unknown + length_field(4, b"data") + unknown)
    rest, payloads = extract_payloads(unknown + inner + unknown, PATH)
    assert [bytes(each) for each in payloads] == [b"data"]
    assert rest == unknown + length_field(2, unknown + length_field(4, bytes(4)) + unknown) + unknown


def test_what_is_no_payload_stays_in_the_rest() -> None:
    for data in (
        wire.group(7, length_field(2, length_field(4, b"inside a group"))),
        length_field(4, b"at the top") + length_field(3, length_field(4, b"in another field")),
        wire.varint_field(2, 4) + length_field(2, wire.varint_field(4, 7)),
    ):
        for buffer in (bytes, bytearray, memoryview):
            assert extract_payloads(buffer(data), PATH) == (data, [])


@pytest.mark.parametrize("padding", [1, 4])
def test_lengths_that_are_written_long_are_read(padding: int) -> None:
    inner = wire.key(4, wire.LENGTH) + wire.varint(4, padding) + b"data"
    data = wire.key(2, wire.LENGTH) + wire.varint(len(inner), padding) + inner
    assert [bytes(each) for each in extract_payloads(data, PATH)[1]] == [b"data"]


def test_path_of_three_reaches_into_a_batch() -> None:
    data = length_field(1, message(b"one")) + length_field(1, message(b"two") + message(b"three"))
    assert [bytes(each) for each in extract_payloads(data, (1, 2, 4))[1]] == [b"one", b"two", b"three"]


def test_every_cut_inside_a_field_is_malformed() -> None:
    whole = message(b"d" * 200) + wire.UNKNOWN_FIELDS["fixed64"] + wire.UNKNOWN_FIELDS["group"]
    name = len(length_field(1, b"name"))
    boundaries = {0, name, len(message(b"d" * 200)), len(message(b"d" * 200)) + 10, len(whole)}
    for cut in set(range(len(whole))) - boundaries:
        with pytest.raises(MalformedRequestError):
            extract_payloads(whole[:cut], PATH)
    for cut in boundaries:
        extract_payloads(whole[:cut], PATH)


@pytest.mark.parametrize(
    "data",
    [
        wire.key(1, wire.GROUP_END),
        wire.key(1, wire.GROUP_START),
        wire.key(1, 6),
        wire.key(1, 7) + b"\0",
        b"\x80" * 11 + b"\x01",
        wire.key(2, wire.LENGTH) + wire.varint(4, 5) + b"data",
        wire.key(2, wire.LENGTH) + wire.varint(2**63) + b"data",
        length_field(2, wire.key(4, wire.LENGTH) + wire.varint(9) + b"data"),
        length_field(2, wire.key(4, wire.GROUP_START)) + wire.key(4, wire.GROUP_END),
    ],
)
def test_bytes_that_are_no_message_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedRequestError):
        extract_payloads(data, PATH)


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**14 - 1, 2**14, 2**31 - 1, 2**32, 2**63])
def test_varint_is_that_of_the_format(value: int) -> None:
    assert varint(value) == wire.varint(value)
