"""Lines reach a file in order, whoever writes never waits, and lines that were dropped are counted in their place."""

import fcntl
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from aclgrad_server.logs import MAX_LINES, LineHandler
from tools.calling import wait_until

LINE_BYTES = 4096
"""A part of a page: lines of this size fill a pipe to its last byte."""


class Pipe:
    """A writer of a pipe that is read only when the test wants to."""

    def __init__(self) -> None:
        self.reader, self.file = os.pipe()
        self.writer = LineHandler(self.file)
        self.capacity = fcntl.fcntl(self.file, fcntl.F_GETPIPE_SZ) // LINE_BYTES

    def fill(self) -> int:
        """Writes until lines are dropped, and returns how many were written and dropped."""
        for number in range(3 * MAX_LINES):
            self.writer.enqueue(f"{number:<{LINE_BYTES - 1}}")
            if number == self.capacity:
                # The pipe is full and the thread has the next line, so nothing leaves the queue any more: lines are
                # dropped in one place alone.
                wait_until(lambda: self.writer.queue.empty())
        return 3 * MAX_LINES

    def lines(self) -> list[str]:
        """Reads to the end, which is what waits to be written now."""
        with ThreadPoolExecutor(1) as thread, open(self.reader, "rb", closefd=False) as file:
            read = thread.submit(file.read)
            assert self.writer.flush(60)
            os.close(self.file)
            self.file = -1
            return read.result(60).decode().splitlines()

    def close(self) -> None:
        # A thread that still waits for the reader gets an error.
        os.close(self.reader)
        if self.file >= 0:
            self.writer.flush(60)
            os.close(self.file)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    pipe = Pipe()
    yield pipe
    pipe.close()


def test_lines_are_written_in_order_and_what_is_no_utf8_is_escaped(pipe: Pipe) -> None:
    for line in (*map(str, range(100)), "grün \udcff"):
        pipe.writer.enqueue(line)
    assert pipe.lines() == [*map(str, range(100)), "grün \\udcff"]


def test_nobody_waits_for_the_reader_and_a_count_stands_where_lines_are_missing(pipe: Pipe) -> None:
    count = pipe.fill()
    # Make room for some lines, and only for these.
    read = b""
    while read.count(b"\n") < pipe.capacity + 100:
        read += os.read(pipe.reader, LINE_BYTES)
    for number in range(10):
        pipe.writer.enqueue(f"later {number}")
    assert not pipe.writer.flush(0.05)
    lines = (read.decode() + "\n".join(pipe.lines())).splitlines()
    kept = [line for line in lines if line.strip().isdecimal()]
    assert MAX_LINES <= len(kept) < count
    assert [int(line) for line in kept] == list(range(len(kept)))
    told = lines[len(kept)]
    text = f"WARNING aclgrad_server.logs: {count - len(kept)} log lines were dropped: stderr was not read"
    assert re.fullmatch(rf"\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ {re.escape(text)}", told)
    assert lines == [*kept, told, *(f"later {number}" for number in range(10))]


def test_reader_that_is_gone_stops_nobody(pipe: Pipe) -> None:
    os.close(pipe.reader)
    pipe.reader = os.open(os.devnull, os.O_RDONLY)
    for number in range(3 * MAX_LINES):
        pipe.writer.enqueue(str(number))
    assert pipe.writer.flush(60)


def test_non_blocking_file_is_waited_for(pipe: Pipe) -> None:
    os.set_blocking(pipe.file, False)
    for number in range(1000):
        pipe.writer.enqueue(f"{number:<1000}")
    assert not pipe.writer.flush(0.05)
    assert [int(line) for line in pipe.lines()] == list(range(1000))
