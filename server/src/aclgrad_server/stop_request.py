"""The request that a process stop, from a signal or from within."""

import os
import signal
import socket
from types import FrameType
from typing import Final

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Catches SIGTERM and SIGINT; a second one ends the process without waiting for anything.

    Wakes its waiter through a socket: a signal that another thread of the process is given, or that comes just before
    the main thread goes to sleep on a lock, would not wake it up from there, and its handler would not run.
    """

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self._was_signalled = False
        signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            signal.signal(number, self._catch)

    def wait(self) -> None:
        """Returns once the stop was requested, now or earlier."""
        self._reader.recv(1)

    def make(self) -> None:
        """Requests the stop; from any thread."""
        try:
            self._writer.send(b"\0")
        except BlockingIOError:
            return  # so many requests have been made already

    def _catch(self, number: int, frame: FrameType | None) -> None:
        if self._was_signalled:
            os._exit(128 + number)
        self._was_signalled = True
