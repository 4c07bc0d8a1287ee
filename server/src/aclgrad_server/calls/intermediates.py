"""The wanted outputs of steps: their users, and their places in the lane's memory.

Outputs that a later step joins may be written next to each other, so that this step has nothing to do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

from aclgrad.sources import Sink
from aclgrad_server.calls.arena import Arena

_ALIGNMENT: Final = 64  # of a place


@dataclass(slots=True)
class Intermediate:
    """A wanted output of a step."""

    step: int
    size_bytes: int
    sink: Sink
    group: int
    last_group: int
    last_step: int
    """The last step of its group that uses it or a part of it."""
    use_count: int = 0
    offset: int = -1
    """Its offset in its lane's memory, or of a part in the whole; -1 before it has a place."""
    whole: "Intermediate | None" = None
    has_parts: bool = False
    is_copied: bool = False
    """Whether the host gets it, or a part of it, at the end of the lane."""

    def __post_init__(self) -> None:
        self.is_copied = self.sink.in_reply

    @property
    def is_held(self) -> bool:
        return self.last_group > self.group or self.sink.in_chunks or self.sink.shared is not None

    @property
    def position(self) -> int:
        """Its offset in its lane's memory."""
        return self.offset if self.whole is None else self.whole.offset + self.offset

    def take(self, arena: Arena) -> None:
        """Allocates its memory, or that of the whole, unless it has some."""
        whole = self.whole or self
        if whole.offset < 0:
            whole.offset = arena.take(whole.size_bytes)


def join(parts: Sequence[Intermediate], whole: Intermediate) -> None:
    """Places the parts next to each other in the whole, if possible.

    All have to be in one lane, and each but the last has to end where the next can begin. A kernel may touch some bytes
    behind its tensors, so the next part has to be made later, and no other step may use a part.
    """
    outputs = (*parts, whole)
    offsets = [0, *accumulate(each.size_bytes for each in parts[:-1])]
    if any(each.is_held or each.whole or each.has_parts or each.group != whole.group for each in outputs):
        return
    if any(offset % _ALIGNMENT for offset in offsets) or any(each.use_count > 1 for each in parts):
        return
    if any(one.step >= other.step for one, other in pairwise(parts)):
        return
    for part, offset in zip(parts, offsets, strict=True):
        part.whole, part.offset = whole, offset
    whole.has_parts = True
    whole.last_step = max(each.last_step for each in outputs)
    whole.is_copied = any(each.is_copied for each in outputs)
