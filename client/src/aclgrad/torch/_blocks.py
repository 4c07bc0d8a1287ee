"""The blocks that are open in a thread, innermost last: what runs below autograd finds its account here."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from aclgrad.torch._account import CallSite, layer_of
from aclgrad.torch._graph import Graph


class Block(Protocol):
    """What takes the gradients of one client, by its number, and counts them."""

    graph: Graph
    number: int


class _Open(threading.local):
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.has_had_one = False
        """Whether the thread has entered a block itself."""
        self.has_node = False
        """Whether the operation that runs has a node of its own in autograd's graph, where it is counted."""


OPEN: Final = _Open()


@contextmanager
def counted_by_node() -> Iterator[None]:
    """Within it, operations are not counted when they run."""
    OPEN.has_node = True
    try:
        yield
    finally:
        OPEN.has_node = False


def note_compiled(function: str, number: int) -> None:
    """Counts an operation in a compiled graph, which has no node of its own, for the client's innermost block."""
    for block in () if OPEN.has_node else reversed(OPEN.blocks):
        if block.number == number:
            block.graph.account.note(CallSite(function, layer_of(sys._getframe(1)), None))  # noqa: SLF001
            return
