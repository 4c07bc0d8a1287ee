"""Replies of several payloads, each behind its prefix."""

import numpy as np
import pytest

from aclgrad_native import Device, ReplyBuffer

from .pooling import FLOAT32, SYMBOL

WAIT_MS = 60_000


def test_sections_stand_one_after_the_other(device: Device) -> None:
    staging = device.stage(WAIT_MS)
    payloads = [b"first", b"", bytes(range(256)) * 40, b"x"]
    prefixes = [b"<1>", b"<2>", b"", b"<4>"]
    reply = ReplyBuffer([(prefix, len(payload)) for prefix, payload in zip(prefixes, payloads, strict=True)])
    parts = reply.parts()
    # In any order.
    for index in (2, 0, 3, 1):
        tensor = staging.reserve(len(payloads[index]))
        tensor.write(0, payloads[index], WAIT_MS)
        staging.finish(WAIT_MS)
        tensor.read(0, parts[index], WAIT_MS)
    expected = b"".join(piece for pair in zip(prefixes, payloads, strict=True) for piece in pair)
    assert reply.finish() == expected


def test_zeros_fill_one_part_alone() -> None:
    reply = ReplyBuffer([(b"a", 3), (b"b", 0), (b"c", 2)])
    for part in reply.parts():
        part.fill_with_zeros()
    assert reply.finish() == b"a\0\0\0bc\0\0"


def test_reply_without_sections() -> None:
    reply = ReplyBuffer([])
    assert reply.parts() == []
    assert reply.finish() == b""


def test_reply_that_is_finished_is_written_no_more(device: Device) -> None:
    reply = ReplyBuffer([(b"", 16)])
    (part,) = reply.parts()
    part.fill_with_zeros()
    whole = reply.finish()
    call = (SYMBOL, [((1, 1, 1), FLOAT32, bytes(4)), ((1, 2, 2), FLOAT32, None)], [], (1, 2, 2), FLOAT32, part, [])
    for use in (reply.finish, part.fill_with_zeros, lambda: device.execute(call, WAIT_MS)):
        with pytest.raises(RuntimeError, match="finished"):
            use()
    assert whole == bytes(16)


def test_part_keeps_the_reply() -> None:
    (part,) = ReplyBuffer([(b"", 2**20)]).parts()
    part.fill_with_zeros()


@pytest.mark.parametrize(
    "sections",
    [
        [(b"", 2**63 - 1)],
        [(b"", 2**62), (b"", 2**62)],
        [(b"x", 2**63 - 1)],
        [(b"", 2**63 - 1), (b"x", 0)],
        [(b"", 2**64 - 1)],
        [(b"", 2**50)],
    ],
    ids=str,
)
def test_reply_that_no_memory_holds(sections: list[tuple[bytes, int]]) -> None:
    with pytest.raises((MemoryError, OverflowError)):
        ReplyBuffer(sections)


@pytest.mark.parametrize("sections", [[("text", 1)], [(b"", -1)], [(b"", 1.5)], [b""]], ids=str)
def test_sections_that_are_none(sections: list[tuple[bytes, int]]) -> None:
    with pytest.raises(TypeError):
        ReplyBuffer(sections)


def test_parts_share_no_byte() -> None:
    reply = ReplyBuffer([(b"", 5)] * 100)
    parts = reply.parts()
    for part in parts[::2]:
        part.fill_with_zeros()
    data = np.frombuffer(reply.finish(), np.uint8).reshape(100, 5)
    assert not data[::2].any()
