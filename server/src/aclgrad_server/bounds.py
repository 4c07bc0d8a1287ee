"""What one caller may have. The file of identities says it, and the gates of calls keep it."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one caller may have whether or not others ask, and its claims in each round of those that wait."""

    per_round: int = 1
    size_bytes: int = sys.maxsize  # of tensors on the device, and of replies
    waiting: int = sys.maxsize
