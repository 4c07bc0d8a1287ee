"""Calls that are whole and cost the server much, or fail: sent again and again, with a deadline, or cancelled."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from tools.hostile import frames
from tools.hostile.connection import Connection
from tools.hostile.target import Target

MAX_CALLS: Final = 5000
SEND_S: Final = 5.0


def send(
    path: str,
    bodies: Sequence[bytes],
    at_once: int,
    connections: int = 1,
    *,
    most: int = MAX_CALLS,
    cancel_after_s: float | None = None,
    **fields: str,
) -> Callable[[Target], None]:
    """Makes calls with the bodies in turn, so many at once on each connection; may cancel them all after a time."""
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
                if not connection.send_data(stream, body, True, min(target.end, time.monotonic() + SEND_S)):
                    connection.reset(stream)
            if cancel_after_s is not None and time.monotonic() > started.get(connection, 0) + cancel_after_s:
                for stream in connection.open_streams:
                    connection.reset(stream)
                    target.count("cancelled")
                started.pop(connection, None)

        target.keep(connections, step)

    return run


def behind(path: str, bodies: Sequence[bytes], attack: Callable[[Target], None]) -> Callable[[Target], None]:
    """Begins a call with each body, which stay open, and makes the attack behind them."""
    fields = frames.request_fields(path)

    def run(target: Target) -> None:
        connection = target.connect()
        if connection is not None:
            for body in bodies:
                connection.send_data(connection.open(fields), body, False, target.end)
        attack(target)
        if connection is not None:
            connection.close()

    return run
