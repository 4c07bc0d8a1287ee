"""Shared memory between a client and a server of one host: where the objects are, and what goes through them."""

from typing import Final

FOLDER: Final = "/dev/shm"
PREFIX: Final = "aclgrad-"
"""How the names of objects begin."""
SHARED_ABOVE_BYTES: Final = 64 * 2**10
"""Smaller tensors go faster in the message."""
