"""What workers answer on the sockets of their admin listeners."""

import asyncio
from dataclasses import dataclass
from typing import Final

ANSWER_LIMIT_S: Final = 1.0
"""A worker that has not answered then is shown as one that does not."""
_MAX_BYTES: Final = 2**26


@dataclass(frozen=True, slots=True)
class Answer:
    """The status of HTTP and the body of an answer."""

    code: int
    body: bytes


async def ask(socket: str, page: str, limit_s: float = ANSWER_LIMIT_S) -> Answer | None:
    """Returns the answer of the listener on a unix socket; None if there is none in time."""
    try:
        async with asyncio.timeout(limit_s):
            return await _ask(socket, page)
    except (OSError, ValueError, IndexError, asyncio.IncompleteReadError):
        return None  # TimeoutError is an OSError


async def _ask(socket: str, page: str) -> Answer:
    reader, writer = await asyncio.open_unix_connection(socket)
    try:
        # By HTTP/1.0 the answer is what comes until the end, in one piece.
        writer.write(f"GET {page} HTTP/1.0\r\n\r\n".encode())
        head, body = (await reader.readuntil(b"\r\n\r\n")), await reader.read(_MAX_BYTES)
        while part := await reader.read(_MAX_BYTES):
            body += part
        return Answer(int(head.split(b" ", 2)[1]), body)
    finally:
        writer.transport.abort()
