"""Extracts the large payloads from a serialized message, so that protobuf parses only the small rest.

A payload is a length-delimited field at the end of one of some fixed paths of field numbers. In the rest, each is
replaced by its index, four bytes long. Protobuf then applies its rules for repeated fields (a field given twice, a
oneof set twice, messages split in pieces), and the remaining index names the valid payload.

The wire format: https://protobuf.dev/programming-guides/encoding
"""

from typing import Final

from aclgrad.errors import MalformedRequestError

_VARINT, _FIXED64, _LENGTH, _GROUP_START, _GROUP_END, _FIXED32 = range(6)
_MAX_VARINT_BYTES = 10
_MAX_SIZE_BYTES = 5
"""The most bytes of a varint tag or length, as in protobuf; longer encodings are refused."""
INDEX_BYTES: Final = 4
"""The placeholder of a payload in the rest."""
_MAX_FIELDS = 20_000
"""Far more fields than any real message has; bounds the time for a message of tiny fields."""


_Path = tuple[int, ...]


def extract_payloads(message: bytes | memoryview, *paths: _Path) -> tuple[bytes, list[memoryview]]:
    """Returns the message with an index in place of each payload, and the payloads as views of the message.

    No path is the beginning of another. Raises MalformedRequestError if the bytes are not a message.
    """
    payloads: list[memoryview] = []
    rest = _replace(memoryview(message), 0, len(message), paths, payloads)
    return rest, payloads


def payload_index(placeholder: bytes) -> int:
    """Returns a payload's placeholder."""
    return int.from_bytes(placeholder, "little")


def _replace(view: memoryview, position: int, end: int, paths: tuple[_Path, ...], payloads: list[memoryview]) -> bytes:
    steps: dict[int, tuple[_Path, ...]] = {}
    for first, *others in paths:
        steps[first] = (*steps.get(first, ()), tuple(others))
    pieces: list[bytes | memoryview] = []
    kept = position
    open_groups = 0
    field_count = 0
    while position < end:
        field_count += 1
        if field_count > _MAX_FIELDS:
            remedy = "send fewer steps or inputs in one message"
            raise MalformedRequestError(f"the message has more than {_MAX_FIELDS} fields", remedy=remedy)
        start = position
        tag, position = _read_varint(view, position, end, _MAX_SIZE_BYTES)
        wire_type = tag & 7
        if wire_type == _LENGTH:
            length, position = _read_varint(view, position, end, _MAX_SIZE_BYTES)
            stop = position + length
            if stop <= end and tag >> 3 in steps and not open_groups:
                if steps[tag >> 3] == ((),):
                    body = len(payloads).to_bytes(INDEX_BYTES, "little")
                    payloads.append(view[position:stop])
                else:
                    # Most results of a long program are empty.
                    body = _replace(view, position, stop, steps[tag >> 3], payloads) if position < stop else b""
                pieces += (view[kept:start], varint(tag), varint(len(body)), body)
                kept = stop
            position = stop
        elif wire_type == _VARINT:
            _, position = _read_varint(view, position, end, _MAX_VARINT_BYTES)
        elif wire_type == _FIXED64:
            position += 8
        elif wire_type == _FIXED32:
            position += 4
        elif wire_type == _GROUP_START:
            open_groups += 1
        elif wire_type == _GROUP_END and open_groups:
            open_groups -= 1
        else:
            raise MalformedRequestError(f"byte {start} of the message does not start a field (wire type {wire_type})")
        if position > end:
            raise MalformedRequestError(f"the field at byte {start} of the message ends beyond it")
    if open_groups:
        raise MalformedRequestError("the message ends inside a group")
    pieces.append(view[kept:end])
    return b"".join(pieces)


def _read_varint(view: memoryview, position: int, end: int, max_bytes: int) -> tuple[int, int]:
    """Returns the varint at the position and the position behind it."""
    value = 0
    for shift in range(0, 7 * max_bytes, 7):
        if position >= end:
            break
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise MalformedRequestError(f"byte {position} of the message is inside a varint that does not end")


def varint(value: int) -> bytes:
    """Returns the value as a varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
