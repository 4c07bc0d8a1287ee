"""HTTP/2 frames by hand (RFC 9113), because no library sends what an attacker sends."""

import struct
from collections.abc import Iterator
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
INITIAL_WINDOW_SIZE: Final = 4
CANCEL: Final = 8
FRAME_HEADER_BYTES: Final = 9
MAX_FRAME_BYTES: Final = 2**14
"""What a peer takes by default."""
DEFAULT_WINDOW_BYTES: Final = 2**16 - 1
MAX_WINDOW_BYTES: Final = 2**31 - 1


def frame(kind: int, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    return struct.pack("!I", len(payload))[1:] + struct.pack("!BBI", kind, flags, stream) + payload


def headers(stream: int, fields: bytes, ends: bool = False) -> bytes:
    """Returns a header block of one frame."""
    return frame(HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, fields)


def settings(**values: int) -> bytes:
    """Returns a SETTINGS frame; the keywords are names of this module."""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack("!HI", globals()[name], value) for name, value in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, struct.pack("!I", increment))


def rst_stream(stream: int, code: int = CANCEL) -> bytes:
    return frame(RST_STREAM, 0, stream, struct.pack("!I", code))


def header(name: str, value: str | bytes) -> bytes:
    """Returns a header field in HPACK's plainest form (RFC 7541): literal, not indexed, not compressed."""
    return b"\0" + _string(name.encode()) + _string(value if isinstance(value, bytes) else value.encode())


def _string(text: bytes) -> bytes:
    """A length with a prefix of 7 bits, then the bytes."""
    if len(text) < 127:
        return bytes([len(text)]) + text
    rest, encoded = len(text) - 127, bytearray([127])
    while rest >= 128:
        encoded.append(rest % 128 | 128)
        rest //= 128
    return bytes(encoded) + bytes([rest]) + text


def request_fields(path: str, **extra: str) -> bytes:
    """Returns the header block of a gRPC call; names of further fields have underscores for hyphens."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    fields |= {name.replace("_", "-"): value for name, value in extra.items()}
    return b"".join(header(name, value) for name, value in fields.items())


def message(data: bytes, announced_bytes: int | None = None) -> bytes:
    """Returns a gRPC message; it may announce more bytes than it has."""
    return struct.pack("!BI", 0, len(data) if announced_bytes is None else announced_bytes) + data


def split_frames(received: bytearray) -> Iterator[tuple[int, int, int, bytes]]:
    """Yields kind, flags, stream and payload of each whole frame, and leaves the rest in `received`."""
    start = 0
    while len(received) - start >= FRAME_HEADER_BYTES:
        end = start + FRAME_HEADER_BYTES + int.from_bytes(received[start : start + 3], "big")
        if end > len(received):
            break
        kind, flags, stream = struct.unpack_from("!BBI", received, start + 3)
        yield kind, flags, stream, bytes(received[start + FRAME_HEADER_BYTES : end])
        start = end
    del received[:start]
