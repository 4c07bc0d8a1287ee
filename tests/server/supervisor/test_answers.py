"""What a worker answers is taken whole, in time, or not at all."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from aclgrad_server.supervisor.worker import ask


def head(length: int | str, code: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {code}\r\nContent-Length: {length}\r\nconnection: close\r\n\r\n".encode()


@asynccontextmanager
async def listening(path: Path, answer: bytes, closes: bool = True) -> AsyncIterator[str]:
    """Yields the path of a socket where each connection gets these bytes."""

    connections: list[asyncio.Task[None] | None] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(asyncio.current_task())
        assert await reader.readuntil(b"\r\n\r\n") == b"GET /page HTTP/1.0\r\n\r\n"
        writer.write(answer)
        if not closes:
            await reader.read()
        writer.close()
        with suppress(ConnectionError):  # what it has enough of, it does not read
            await writer.wait_closed()

    server = await asyncio.start_unix_server(serve, path)
    try:
        yield str(path)
    finally:
        server.close()
        await asyncio.gather(*filter(None, connections))


ANSWERS: dict[str, tuple[bytes, bytes | None]] = {
    "page": (head(4) + b"page", b"page"),
    "empty_page": (head(0), b""),
    "large_page": (head(2**23) + b"x" * 2**23, b"x" * 2**23),
    "nothing": (b"", None),
    "garbage": (b"\0\xff" * 100, None),
    "garbage_as_a_head": (b"\r\n\r\n", None),
    "endless_head": (b"x" * 2**20, None),
    "no_length": (b"HTTP/1.1 200 OK\r\n\r\npage", None),
    "length_that_is_none": (head("four") + b"page", None),
    "negative_length": (head(-4) + b"page", None),
    "length_beyond_the_limit": (head(2**26 + 1), None),
    "length_of_many_digits": (head("9" * 5000), None),
    "half_a_page": (head(8) + b"page", None),
    "error": (head(21, "500 Internal Server Error") + b"Internal Server Error", None),
    "no_status": (b"HTTP/1.1\r\ncontent-length: 0\r\n\r\n", None),
}


@pytest.mark.parametrize(("answer", "page"), ANSWERS.values(), ids=ANSWERS)
async def test_answer_is_a_page_or_none(tmp_path: Path, answer: bytes, page: bytes | None) -> None:
    async with listening(tmp_path / "socket", answer) as socket:
        assert await ask(socket, "/page", 30) == page


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n", head(4) + b"pag"], ids=len)
async def test_silence_ends_at_the_limit(tmp_path: Path, answer: bytes) -> None:
    async with listening(tmp_path / "socket", answer, closes=False) as socket:
        begin = time.monotonic()
        assert await ask(socket, "/page", 0.1) is None
        assert 0.09 < time.monotonic() - begin < 10


async def test_there_may_be_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere" / "socket", tmp_path / "file", tmp_path / ("x" * 200)):
        assert await ask(str(path), "/page") is None
