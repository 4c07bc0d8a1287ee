"""The protobuf wire format written by hand: an encoder of the tests' own, for bytes that no stub would write."""

VARINT, FIXED64, LENGTH, GROUP_START, GROUP_END, FIXED32 = range(6)


def varint(value: int, padding: int = 0) -> bytes:
    """Returns the value, with `padding` needless bytes that the format allows."""
    groups = []
    while True:
        groups.append(value % 128)
        value //= 128
        if value == 0:
            break
    groups += [0] * padding
    return bytes([group + 128 for group in groups[:-1]] + [groups[-1]])


def key(number: int, wire_type: int) -> bytes:
    return varint(number * 8 + wire_type)


def length_field(number: int, body: bytes) -> bytes:
    return key(number, LENGTH) + varint(len(body)) + body


def varint_field(number: int, value: int) -> bytes:
    return key(number, VARINT) + varint(value)


def group(number: int, body: bytes) -> bytes:
    return key(number, GROUP_START) + body + key(number, GROUP_END)


UNKNOWN_FIELDS = {
    "varint": varint_field(99, 2**64 - 1),
    "fixed64": key(98, FIXED64) + bytes(range(8)),
    "fixed32": key(97, FIXED32) + bytes(range(4)),
    "length": length_field(96, b"whatever"),
    "group": group(95, varint_field(1, 5) + length_field(2, b"inside")),
    "nested_group": group(94, group(93, length_field(2, b"deep"))),
    "large_number": length_field(2**29 - 1, b"last"),
}
