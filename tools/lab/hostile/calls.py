"""Calls that cost much, are cancelled, stand still, or whose replies nobody reads; and clients that are stopped."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tools.lab.hostile import frames
from tools.lab.hostile.connection import Connection
from tools.lab.hostile.target import Target

Run = Callable[[Target], None]
MAX_CALLS: Final = 10_000
SEND_S: Final = 5.0
RUN_S: Final = 0.4
"""What a client makes of its calls before it is stopped."""


def make(
    path: str,
    bodies: Sequence[bytes],
    at_once: int,
    connections: int = 1,
    *,
    most: int = MAX_CALLS,
    ends: bool = True,
    window_bytes: int = frames.MAX_WINDOW_BYTES,
    cancel_after_s: float | None = None,
    drips: bool = False,
    **fields: str,
) -> Run:
    """Makes calls with the bodies in turn, so many at once on each connection.

    They may not end, or be cancelled together after a time, or get a byte more now and then. A call that the server
    ends is made anew. With a window of 0, nothing of the replies is read.
    """
    block = frames.request_fields(path, **fields)

    def run(target: Target) -> None:
        started: dict[Connection, float] = {}

        def step(connection: Connection) -> None:
            while len(connection.open_streams) < at_once and target.counts.get("calls", 0) < most:
                if target.is_over():
                    return
                stream = connection.open(block)
                body = bodies[target.counts.get("calls", 0) % len(bodies)]
                target.count("calls")
                started.setdefault(connection, time.monotonic())
                is_sent = connection.send_data(stream, body, ends, min(target.end, time.monotonic() + SEND_S))
                if ends and not is_sent:
                    connection.reset(stream)
            for stream in connection.open_streams if drips else ():
                connection.send_data(stream, b"\0", False, time.monotonic())
            if cancel_after_s is not None and time.monotonic() > started.get(connection, 0) + cancel_after_s:
                for stream in connection.open_streams:
                    connection.reset(stream)
                    target.count("cancelled")
                started.pop(connection, None)

        target.keep(connections, step, window_bytes)

    return run


hold: Final = partial(make, ends=False, window_bytes=2**20)
ignore: Final = partial(make, window_bytes=0)


def stopped(work: Run, clients: int) -> Run:
    """Has so many processes do the work, stops them amid it as a debugger does, and ends them when the time is over."""

    def run(target: Target) -> None:
        children = []
        for _ in range(clients):
            child = os.fork()
            if child == 0:
                try:
                    work(target)
                finally:
                    os._exit(0)
            children.append(child)
        try:
            time.sleep(RUN_S)
            for child in children:
                os.kill(child, signal.SIGSTOP)
            target.count("stopped", len(children))
            time.sleep(max(0.0, target.end - time.monotonic()))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    return run
