"""Writes lines to a file descriptor from a thread of its own, so that whoever has a line to write never waits."""

import os
import select
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final

MAX_LINES: Final = 4096
"""Lines that wait to be written: some megabytes at most. Beyond that, lines are dropped and counted."""


class LogWriter:
    """Keeps the order of lines, and says where lines are missing because nobody read the file."""

    def __init__(self, file_descriptor: int, dropped_line: Callable[[int], str]) -> None:
        """Takes an open file, which it does not close, and what makes the line that says how many were dropped."""
        self._file = file_descriptor
        self._dropped_line = dropped_line
        # Each line with the number of those dropped before it. Not a Queue: its lock is not reentrant, and a destructor
        # that logs may run in the middle of `put`.
        self._queue: SimpleQueue[tuple[str | threading.Event, int]] = SimpleQueue()
        self._dropped = 0  # written by `write` alone
        self._told = 0  # written by the thread alone
        # A daemon: while nobody reads the file, the thread never ends.
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def write(self, line: str) -> None:
        """Queues the line, or counts it as dropped if too many wait. One thread at a time may call this."""
        if self._queue.qsize() >= MAX_LINES:
            self._dropped += 1
        else:
            self._queue.put((line, self._dropped))

    def flush(self, limit_s: float) -> bool:
        """Waits until everything queued so far is written, at most for the limit, and says whether it is."""
        reached = threading.Event()
        self._queue.put((reached, self._dropped))
        return reached.wait(limit_s)

    def _run(self) -> None:
        while True:
            line, dropped = self._queue.get()
            self._tell_dropped(dropped)
            if isinstance(line, threading.Event):
                line.set()
            else:
                self._write(line)
            if self._queue.empty():
                # No later line may come.
                self._tell_dropped(self._dropped)

    def _tell_dropped(self, dropped: int) -> None:
        if dropped > self._told:
            self._write(self._dropped_line(dropped - self._told))
            self._told = dropped

    def _write(self, line: str) -> None:
        """Writes to the descriptor itself: the lock of `sys.stderr`, once held here, would stop the process's end."""
        data = f"{line}\n".encode(errors="backslashreplace")
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except BlockingIOError:
                # The descriptor is shared with a process that made it non-blocking.
                select.select([], [self._file], [])
            except OSError:
                return  # closed, or its reader is gone: there is nobody to tell
