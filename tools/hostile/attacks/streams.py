"""Calls that stand still: nothing is sent, or never all of it, or nothing of the reply is read."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from tools.hostile import frames
from tools.hostile.connection import Connection, ConnectionClosedError
from tools.hostile.target import Target

Run = Callable[[Target], None]

MAX_CALLS: Final = 20_000
"""That one attack makes."""
STEP_S: Final = 0.5
"""A step waits so long for the server's windows and then turns to the next connection."""
LEAVE_S: Final = 0.05
"""Between two clients that leave their reply: the server ends each at another moment."""


def hold(path: str, bodies: Sequence[bytes], streams: int, connections: int = 1, window_bytes: int = 2**20) -> Run:
    """Keeps so many calls open on each connection, each with one of the bodies sent and not ended.

    A call that the server ends is made anew.
    """
    fields = frames.request_fields(path)

    def run(target: Target) -> None:
        def step(connection: Connection) -> None:
            while len(connection.open_streams) < streams and target.counts.get("calls", 0) < MAX_CALLS:
                if target.is_over():
                    return
                stream = connection.open(fields)
                target.count("calls")
                body = bodies[target.counts["calls"] % len(bodies)]
                connection.send_data(stream, body, False, min(target.end, time.monotonic() + STEP_S))

        target.keep(connections, step, window_bytes)

    return run


def drip(path: str, announced_bytes: int, streams: int) -> Run:
    """Keeps calls open whose message comes a byte at a time and never to its end."""
    fields, start = frames.request_fields(path), frames.message(b"", announced_bytes=announced_bytes)

    def run(target: Target) -> None:
        def step(connection: Connection) -> None:
            while len(connection.open_streams) < streams and target.counts.get("calls", 0) < MAX_CALLS:
                stream = connection.open(fields)
                target.count("calls")
                connection.send_data(stream, start, False, target.end)
            for stream in connection.open_streams:
                connection.send_data(stream, b"\0", False, time.monotonic())

        target.keep(1, step, pause_s=0.1)

    return run


def ignore(path: str, bodies: Sequence[bytes], streams: int, connections: int = 1) -> Run:
    """Makes calls whose replies nobody reads: the client's windows stay shut."""
    fields = frames.request_fields(path)

    def run(target: Target) -> None:
        def step(connection: Connection) -> None:
            while len(connection.open_streams) < streams and target.counts.get("calls", 0) < MAX_CALLS:
                stream = connection.open(fields)
                body = bodies[target.counts.get("calls", 0) % len(bodies)]
                target.count("calls")
                connection.send_data(stream, body, True, min(target.end, time.monotonic() + STEP_S))

        target.keep(connections, step, window_bytes=0)

    return run


def leave(path: str, body: bytes, connections: int) -> Run:
    """Makes a call on one new connection after the other and fetches nothing; the latest of them stay open."""
    fields = frames.request_fields(path)

    def run(target: Target) -> None:
        held: deque[Connection] = deque()
        while not target.is_over():
            connection = target.connect(window_bytes=0)
            if connection is not None:
                held.append(connection)
                with suppress(ConnectionClosedError):
                    connection.send_data(connection.open(fields), body, True, target.end)
                    target.count("calls")
            if len(held) > connections:
                held.popleft().close()
            time.sleep(LEAVE_S)
        for each in held:
            each.close()

    return run
