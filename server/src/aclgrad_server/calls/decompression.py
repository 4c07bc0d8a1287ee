"""Compressed messages, as large as they say that they are: nobody's message grows before its memory is claimed."""

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from aclgrad.errors import LimitExceededError, MalformedRequestError
from aclgrad_server.limits import SMALL_BYTES

GZIP: Final = b"\x1f\x8b"
"""How gzip begins (RFC 1952), and no protobuf message: it would be a field of wire type 7, which does not exist."""
_LENGTH_BYTES: Final = 4  # at the end of gzip: the size of its content, modulo 2^32
_OVERHEAD_BYTES: Final = 1024
_WINDOW: Final = 16 + zlib.MAX_WBITS
_threads: Final = ThreadPoolExecutor(1, "decompress")
"""One thread, so that compressed messages take no more than one core."""


async def decompressed(
    message: bytes, limit_bytes: int, claim: Callable[[int], Awaitable[object]] | None = None
) -> bytes:
    """Returns what a message contains, if it is compressed; `claim` grants the memory of a large one before.

    Raises LimitExceededError for more than `limit_bytes`, and MalformedRequestError for what is no whole gzip.
    """
    if not message.startswith(GZIP):
        return message
    size_bytes = _size_of(message, limit_bytes)
    if size_bytes <= SMALL_BYTES:
        return _decompress(message, size_bytes)
    if claim is not None:
        await claim(size_bytes)
    return await asyncio.get_running_loop().run_in_executor(_threads, _decompress, message, size_bytes)


def decompressed_small(message: bytes, limit_bytes: int = SMALL_BYTES) -> bytes:
    """Does the same at once, for a message of which nobody expects more than `SMALL_BYTES`."""
    return _decompress(message, _size_of(message, limit_bytes)) if message.startswith(GZIP) else message


def _size_of(message: bytes, limit_bytes: int) -> int:
    size_bytes = int.from_bytes(message[-_LENGTH_BYTES:], "little")
    if size_bytes > limit_bytes:
        problem = f"has {size_bytes} bytes decompressed and the limit is {limit_bytes}"
        remedy = "send larger calls in chunks (ExecuteOperatorChunked), and fewer calls in one batch"
        metadata = {"size": str(size_bytes), "max_message_bytes": str(limit_bytes)}
        raise LimitExceededError.at("message", problem, remedy, metadata)
    # Blocks without content take time, too. Honest gzip is hardly larger than what it contains.
    if len(message) > size_bytes + size_bytes // 8 + _OVERHEAD_BYTES:
        raise MalformedRequestError("the message is compressed, and larger than what its gzip says that it contains")
    return size_bytes


def _decompress(message: bytes, size_bytes: int) -> bytes:
    stream = zlib.decompressobj(_WINDOW)
    try:
        # With 0, zlib would have no limit.
        content = stream.decompress(message, max(1, size_bytes))
    except zlib.error:
        content = b""
    if not stream.eof or stream.unused_data or len(content) != size_bytes:
        raise MalformedRequestError("the message is compressed, and its gzip is not whole")
    return content
