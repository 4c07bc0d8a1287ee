"""The place of a worker on its host, and the orders that it gets from its supervisor."""

import os
import pickle
import sys
from dataclasses import dataclass

from aclgrad_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's number, the number of workers on its host and on its card, and the addresses of each."""

    index: int
    worker_count: int
    on_card: int = 1
    endpoints: tuple[tuple[str, ...], ...] = ()
    restart_count: int = 0
    host_id: str = ""
    """A random text, shared by all workers of a running supervisor."""
    shared: tuple[str, ...] = ()
    """The addresses that all workers listen on."""


def share_of(whole: int, parts: int, least: int = 1) -> int:
    """Returns one worker's share of the whole, rounded up, and at least `least` if there is as much."""
    return max(min(least, whole), -(-whole // parts))


@dataclass(frozen=True, slots=True)
class Orders:
    """A worker's orders at its start: its settings, which are read once for the host, and its place."""

    settings: Settings
    place: Place
    probes: bool = False
    """Whether a child process makes its first calls."""

    def packed(self) -> bytes:
        # Not JSON: settings would be validated again, with their file and the environment.
        return pickle.dumps(self)


def read_orders() -> Orders:
    """Returns the orders from standard input, which the supervisor holds open as long as it lives."""
    orders: Orders = pickle.load(sys.stdin.buffer)
    return orders


def wait_for_the_supervisor_to_end() -> None:
    """Blocks until the supervisor has closed the input or ended."""
    # Not through a file object, whose lock would keep the interpreter from ending.
    while os.read(sys.stdin.fileno(), 1):
        pass
