"""A relay between clients and a server that can fall silent, become slow, or forget its connections."""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, suppress
from types import TracebackType
from typing import Any, Final, Self

PIECE_BYTES = 65_536
MOST_PIECES: Final = 1024
"""So many wait for their time in one direction, which is more than a gigabit per second sends in half a second."""


class Relay:
    """Passes bytes between its own address and a port, by default of loopback, from `with` to the end of the block.

    Bytes go on `delay_s` after they came, in each direction.
    """

    def __init__(self, port: int, own_port: int = 0, host: str = "127.0.0.1", delay_s: float = 0.0) -> None:
        self._port, self._own_port, self._host, self._delay_s = port, own_port, host, delay_s
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"relay to {port}")
        self._passes = asyncio.Event()
        self._passes.set()
        self._bytes_per_s: float | None = None
        self._ways: set[Way] = set()
        self._server: asyncio.Server | None = None
        self.address = ""

    def be_silent(self) -> None:
        """Passes nothing on any connection, new ones included, until `pass_again`; no bytes are lost."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def be_slow(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s

    def forget(self) -> None:
        """Leaves the connections of now half open: the server's side is closed, and the client hears nothing again."""
        self._do(self._forget())

    def pass_again(self) -> None:
        self._bytes_per_s = None
        self._loop.call_soon_threadsafe(self._passes.set)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, step: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(step, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._own_port)
        self.address = "{}:{}".format(*self._server.sockets[0].getsockname())

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way = Way(reader, writer)
        self._ways.add(way)
        try:
            await self._passes.wait()
            await way.run(self)
        finally:
            self._ways.discard(way)

    async def wait_to_pass(self, size_bytes: int) -> None:
        """Returns when so many bytes may go on."""
        if self._bytes_per_s is not None:
            await asyncio.sleep(size_bytes / self._bytes_per_s)
        await self._passes.wait()

    async def _forget(self) -> None:
        for way in self._ways:
            way.forget()

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Way:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._near = reader, writer
        self._far: asyncio.StreamWriter | None = None
        self._is_forgotten = False

    def forget(self) -> None:
        self._is_forgotten = True
        if self._far is not None:
            self._far.transport.abort()

    async def run(self, relay: Relay) -> None:
        near_reader, near_writer = self._near
        try:
            far_reader, self._far = await asyncio.open_connection(relay._host, relay._port)  # noqa: SLF001 - one subject
            ways = (near_reader, self._far), (far_reader, near_writer)
            tasks = [asyncio.create_task(self._pass(relay, *way)) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._is_forgotten:
                await asyncio.wait(tasks)
        except OSError:
            pass
        finally:
            near_writer.transport.abort()
            if self._far is not None:
                self._far.transport.abort()

    async def _pass(self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            async with aclosing(_pieces(reader, relay._delay_s)) as pieces:  # noqa: SLF001 - one subject
                async for piece in pieces:
                    await relay.wait_to_pass(len(piece))
                    if not self._is_forgotten:  # otherwise it is dropped, until the client gives the connection up
                        writer.write(piece)
                        await writer.drain()


async def _pieces(reader: asyncio.StreamReader, delay_s: float) -> AsyncIterator[bytes]:
    """Yields what arrives, each piece so long after its own arrival: a delay takes nothing from the rate."""
    if not delay_s:
        while piece := await reader.read(PIECE_BYTES):
            yield piece
        return
    time = asyncio.get_running_loop().time
    waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(MOST_PIECES)

    async def read() -> None:
        piece = b"none yet"
        while piece:
            try:
                piece = await reader.read(PIECE_BYTES)
            except OSError:
                piece = b""
            await waiting.put((time() + delay_s, piece))

    reading = asyncio.create_task(read())
    try:
        while True:
            due, piece = await waiting.get()
            await asyncio.sleep(due - time())
            if not piece:
                return
            yield piece
    finally:
        reading.cancel()
