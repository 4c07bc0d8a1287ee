"""The blocks that are open in a thread, innermost last: what runs below autograd finds its account here."""

import threading
from typing import Final, Protocol

from aclgrad.torch._account import Account


class Block(Protocol):
    """What takes the gradients of one client, by its number, and counts them."""

    account: Account
    number: int


class _Open(threading.local):
    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self.has_had_one = False
        """Whether the thread has entered a block itself."""


OPEN: Final = _Open()


def note_remote(function: str, number: int) -> None:
    """Counts a call whose gradient is that of the client with this number, in the client's innermost block."""
    for block in reversed(OPEN.blocks):
        if block.number == number:
            block.account.note(function, None)
            return
