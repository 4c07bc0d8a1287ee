"""Nobody's message grows before its memory is claimed."""

import gzip
import random
import struct
import zlib

import pytest

from aclgrad.errors import LimitExceededError, MalformedRequestError
from aclgrad_server.calls.decompression import decompressed, decompressed_small
from aclgrad_server.limits import SMALL_BYTES

LIMIT = 4 * 2**20


async def test_what_is_not_compressed_stays_as_it_is() -> None:
    """No request begins as gzip does: its first byte would be a field of a wire type that does not exist."""
    for message in (b"", b"\x1f", b"\x0a\x03abc", b"\x1e\x8b"):
        assert await decompressed(message, LIMIT) is message


@pytest.mark.parametrize("size", [0, 1, SMALL_BYTES, SMALL_BYTES + 1, LIMIT])
async def test_the_content_is_returned_and_memory_of_a_large_one_is_claimed_first(size: int) -> None:
    content, claimed = bytes(range(256)) * (size // 256 + 1), []

    async def claim(size_bytes: int) -> None:
        claimed.append(size_bytes)

    assert await decompressed(gzip.compress(content[:size]), LIMIT, claim) == content[:size]
    assert claimed == ([size] if size > SMALL_BYTES else [])


async def test_more_than_the_limit_is_refused_unseen() -> None:
    async def claim(size_bytes: int) -> None:
        raise AssertionError("claimed")

    with pytest.raises(LimitExceededError, match="has 4194305 bytes decompressed and the limit is 4194304") as caught:
        await decompressed(gzip.compress(bytes(LIMIT + 1)), LIMIT, claim)
    assert caught.value.metadata["max_message_bytes"] == str(LIMIT)
    with pytest.raises(LimitExceededError):
        decompressed_small(gzip.compress(bytes(257)), 256)


def lying(content: bytes, size: int) -> bytes:
    """Returns a gzip that says that its content has another size."""
    return gzip.compress(content)[:-4] + struct.pack("<I", size)


@pytest.mark.parametrize(
    "message",
    [
        lying(bytes(2**20), 16),
        lying(bytes(2**20), 0),
        lying(bytes(16), 32),
        gzip.compress(bytes(1000))[:-9],
        gzip.compress(b"a") + gzip.compress(b"a"),
        gzip.compress(b"a")[:-8] + struct.pack("<II", 1, 1),
        b"\x1f\x8b",
        b"\x1f\x8b" + bytes(20),
    ],
    ids=["more", "much more", "less", "cut", "two", "wrong checksum", "nothing", "zeros"],
)
async def test_what_is_no_whole_gzip_of_its_size_is_malformed(message: bytes) -> None:
    with pytest.raises(MalformedRequestError, match=r"gzip is not whole|larger than what its gzip"):
        await decompressed(message, 2**32)
    with pytest.raises(MalformedRequestError):
        decompressed_small(message, 2**32)


async def test_what_is_larger_than_its_content_is_refused_unread() -> None:
    """Blocks that end at once, without content, would hold the event loop and the only thread that decompresses."""
    message = gzip.compress(b"")[:10] + b"\x00\x00\x00\xff\xff" * (2**20 // 5) + b"\x03\x00" + bytes(8)
    assert zlib.decompress(message[10:], -15) == b""
    with pytest.raises(MalformedRequestError, match="larger than what its gzip says"):
        await decompressed(message, LIMIT)
    with pytest.raises(MalformedRequestError, match="larger than what its gzip says"):
        decompressed_small(message)


@pytest.mark.parametrize("size", [0, 1, 1000, 2**20])
async def test_content_that_cannot_be_compressed_is_not_taken_for_that(size: int) -> None:
    content = random.Random(1).randbytes(size)
    for level in (0, 1, 9):
        assert await decompressed(gzip.compress(content, level), LIMIT) == content
