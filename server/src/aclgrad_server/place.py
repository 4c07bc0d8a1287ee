"""The place of a worker among those of its host, and how its supervisor tells it."""

import os
import pickle
import sys
from dataclasses import dataclass

from aclgrad_server.settings import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """A worker's place: its number, how many share its host and its card, and the own addresses of each of them."""

    index: int
    worker_count: int
    on_card: int = 1
    endpoints: tuple[tuple[str, ...], ...] = ()
    restart_count: int = 0
    host_id: str = ""
    """A random text, the same for all of them as long as the supervisor lives."""
    shared: tuple[str, ...] = ()
    """The addresses that all of them listen on."""


def share_of(whole: int, parts: int, least: int = 1) -> int:
    """Returns what each of so many workers has, rounded up, and no less than `least` if there is as much."""
    return max(min(least, whole), -(-whole // parts))


@dataclass(frozen=True, slots=True)
class Orders:
    """What a worker is told when it starts: its settings, which are read once for the host, and its place."""

    settings: Settings
    place: Place
    probes: bool = False
    """Whether a child process makes its first calls."""

    def packed(self) -> bytes:
        # Not JSON: settings would be validated again, and look for their file and the environment's variables.
        return pickle.dumps(self)


def read_orders() -> Orders:
    """Returns what the supervisor has written to this process's standard input, which it holds open as it lives."""
    orders: Orders = pickle.load(sys.stdin.buffer)
    return orders


def wait_for_the_supervisor_to_end() -> None:
    """Blocks until the supervisor has closed the input or has ended, however it did."""
    # Not by a file object, whose lock would keep the interpreter from ending.
    while os.read(sys.stdin.fileno(), 1):
        pass
