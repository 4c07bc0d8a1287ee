"""What workers answer on the sockets of their admin listeners."""

import asyncio
import re
from typing import Final

ANSWER_LIMIT_S: Final = 1.0
"""A worker that has not answered then is shown as one that does not."""
_MAX_BYTES: Final = 2**26
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d{1,18})\r\n", re.IGNORECASE)


async def ask(socket: str, page: str, limit_s: float = ANSWER_LIMIT_S) -> bytes | None:
    """Returns the page of the listener on a unix socket; None if it does not come, whole and in time."""
    try:
        async with asyncio.timeout(limit_s):
            return await _ask(socket, page)
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
        return None  # TimeoutError is an OSError


async def _ask(socket: str, page: str) -> bytes:
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        # By HTTP/1.0 the answer comes in one piece.
        writer.write(f"GET {page} HTTP/1.0\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if head.split()[1:2] != [b"200"] or length is None or int(length[1]) > _MAX_BYTES:
            raise ValueError(head)
        return await reader.readexactly(int(length[1]))
    finally:
        writer.transport.abort()
