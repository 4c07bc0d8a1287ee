"""What is attacked, and for how long: connections that are made again when the server cuts them off."""

import time
from collections.abc import Callable
from typing import Final

from tools.lab.hostile import frames
from tools.lab.hostile.connection import Connection, ConnectionClosedError

Step = Callable[[Connection], None]
"""What an attack does on one connection, again and again."""

PAUSE_S: Final = 0.02
MAX_RECONNECTS: Final = 20_000


class Target:
    """A server's address and the end of the attack; counts what the attack got through."""

    def __init__(self, address: str, seconds: float) -> None:
        host, _, port = address.rpartition(":")
        self.address = (host, int(port))
        self.end = time.monotonic() + seconds
        self.counts: dict[str, int] = {"connected": 0, "ended": 0, "held_up": 0}

    def is_over(self) -> bool:
        return time.monotonic() >= self.end

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + number

    def connect(self, window_bytes: int = frames.MAX_WINDOW_BYTES) -> Connection | None:
        """Returns a connection, or None if the server takes none now."""
        if self.counts["connected"] >= MAX_RECONNECTS:
            return None
        try:
            connection = Connection(self.address, window_bytes)
        except (OSError, ConnectionClosedError):
            self.count("refused")
            return None
        self.count("connected")
        return connection

    def keep(
        self,
        connections: int,
        step: Step = lambda _: None,
        window_bytes: int = frames.MAX_WINDOW_BYTES,
        pause_s: float = PAUSE_S,
    ) -> None:
        """Holds so many connections until the end, and takes a step on each in turn."""
        held: list[Connection | None] = [None] * connections
        while not self.is_over():
            for place in range(connections):
                if self.is_over():
                    break
                connection = held[place] or self.connect(window_bytes)
                held[place] = connection
                if connection is None:
                    break  # not before the pause
                try:
                    step(connection)
                    connection.receive(0)
                except ConnectionClosedError:
                    self._end(connection)
                    self.count("held_up")
                    held[place] = None
            time.sleep(pause_s)
        for connection in held:
            if connection is not None:
                self._end(connection)

    def _end(self, connection: Connection) -> None:
        self.count("ended", connection.ended_count)
        self.count("held_up", connection.wait_count)
        connection.close()
