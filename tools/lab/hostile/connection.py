"""One HTTP/2 connection of an attacker: as much of the protocol as it takes not to be cut off at once."""

import select
import socket
import time
from typing import Final

from tools.lab.hostile import frames

CONNECT_TIMEOUT_S: Final = 5.0
STANDSTILL_S: Final = 5.0
"""A server that takes nothing for so long has won."""
RECEIVE_BYTES: Final = 2**18
RECEIVES_AT_ONCE: Final = 64


class ConnectionClosedError(Exception):
    """The server has ended the connection."""


class Connection:
    """Opens streams, sends within the server's windows, and notes which streams have ended.

    Replies are read and thrown away. `window_bytes` is what the server may send of each reply before more is asked for,
    which never happens; with 0 the connection's own window stays shut, too.
    """

    def __init__(self, address: tuple[str, int], window_bytes: int = frames.MAX_WINDOW_BYTES) -> None:
        self._socket = socket.create_connection(address, CONNECT_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.setblocking(False)
        self._received = bytearray()
        self._unsent = bytearray()
        self._next_stream = 1
        self._readable = select.poll()
        self._readable.register(self._socket, select.POLLIN)
        self._usable = select.poll()
        self._usable.register(self._socket, select.POLLIN | select.POLLOUT)
        self._initial_window = frames.DEFAULT_WINDOW_BYTES
        self._connection_window = frames.DEFAULT_WINDOW_BYTES
        self._windows: dict[int, int] = {}
        self._is_leaving = False
        self._reads = window_bytes > 0
        self.ended_count = 0
        self.wait_count = 0
        """How often the server took no more for a while."""
        hello = frames.PREFACE + frames.settings(INITIAL_WINDOW_SIZE=window_bytes)
        if self._reads:
            hello += frames.window_update(0, frames.MAX_WINDOW_BYTES - frames.DEFAULT_WINDOW_BYTES)
        self.send(hello)

    def take_streams(self, count: int = 1) -> int:
        """Returns the first of so many streams that nobody has used; raises if the server takes no more."""
        if self._is_leaving or self._next_stream + 2 * count > frames.MAX_WINDOW_BYTES:
            raise ConnectionClosedError
        first, self._next_stream = self._next_stream, self._next_stream + 2 * count
        return first

    def open(self, fields: bytes, ends: bool = False) -> int:
        """Begins a call and returns its stream."""
        stream = self.take_streams()
        self._windows[stream] = self._initial_window
        self.send(frames.headers(stream, fields, ends))
        return stream

    def send_data(self, stream: int, data: bytes, ends: bool, deadline: float) -> bool:
        """Sends data as fast as the windows allow; returns whether all of it went before the deadline."""
        view = memoryview(data)
        while view:
            allowed = min(len(view), self._connection_window, self._windows.get(stream, 0), frames.MAX_FRAME_BYTES)
            if allowed <= 0:
                if stream not in self._windows or time.monotonic() > deadline:
                    return False
                self.receive(0.05)
                continue
            flags = frames.END_STREAM if ends and allowed == len(view) else 0
            self.send(frames.frame(frames.DATA, flags, stream, view[:allowed]))
            self._connection_window -= allowed
            self._windows[stream] -= allowed
            view = view[allowed:]
        return True

    def reset(self, stream: int) -> None:
        self._windows.pop(stream, None)
        self.send(frames.rst_stream(stream))

    def send(self, data: bytes) -> None:
        """Sends raw bytes, reading meanwhile: a server that cannot send does not read either."""
        self._unsent += data
        end = time.monotonic() + STANDSTILL_S
        while self._unsent:
            try:
                del self._unsent[: self._socket.send(self._unsent)]
            except BlockingIOError:
                if time.monotonic() > end:
                    raise ConnectionClosedError from None
                self.wait_count += 1
                self._usable.poll(10)
                self._read()
            except OSError as error:
                raise ConnectionClosedError from error

    def receive(self, timeout_s: float) -> None:
        """Waits for what comes next, and answers settings and pings."""
        self._readable.poll(timeout_s * 1e3)
        self._read()
        self.send(b"")

    def _read(self) -> None:
        """Takes what has come; answers are left to be sent."""
        try:
            for _ in range(RECEIVES_AT_ONCE):
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionClosedError
                self._received += data
        except BlockingIOError:
            pass
        except OSError as error:
            raise ConnectionClosedError from error
        for each in frames.split_frames(self._received):
            self._unsent += self._answer(*each)

    def _answer(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        if kind == frames.SETTINGS and not flags & frames.ACK:
            self._read_settings(payload)
            return frames.frame(frames.SETTINGS, frames.ACK, 0)
        if kind == frames.PING and not flags & frames.ACK:
            return frames.frame(frames.PING, frames.ACK, 0, payload)
        if kind == frames.GOAWAY:
            self._is_leaving = True
        if kind == frames.WINDOW_UPDATE:
            increment = int.from_bytes(payload, "big")
            if stream == 0:
                self._connection_window += increment
            elif stream in self._windows:
                self._windows[stream] += increment
        is_last = kind in (frames.DATA, frames.HEADERS) and flags & frames.END_STREAM
        if (is_last or kind == frames.RST_STREAM) and self._windows.pop(stream, None) is not None:
            self.ended_count += 1
        if kind == frames.DATA and payload and self._reads:
            return frames.window_update(0, len(payload))
        return b""

    def _read_settings(self, payload: bytes) -> None:
        for start in range(0, len(payload), 6):
            if int.from_bytes(payload[start : start + 2], "big") == frames.INITIAL_WINDOW_SIZE:
                size = int.from_bytes(payload[start + 2 : start + 6], "big")
                for stream in self._windows:
                    self._windows[stream] += size - self._initial_window
                self._initial_window = size

    @property
    def open_streams(self) -> set[int]:
        return set(self._windows)

    def close(self) -> None:
        self._socket.close()
