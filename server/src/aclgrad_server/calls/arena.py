"""Offsets of a lane's intermediates in its memory: later ones reuse the bytes of earlier ones."""

from bisect import bisect
from typing import Final

_ALIGNMENT: Final = 512  # of CANN's own allocations
_TAIL_BYTES: Final = 32  # behind a tensor that kernels may touch


def _taken_bytes(size_bytes: int) -> int:
    return -(-(size_bytes + _TAIL_BYTES) // _ALIGNMENT) * _ALIGNMENT


class Arena:
    """Gives out offsets in one block of memory, whose size is the peak of its use."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self._gaps: list[tuple[int, int]] = []  # offset and end, ascending; no two touch

    def take(self, size_bytes: int) -> int:
        """Returns the offset of the first gap that is large enough."""
        taken = _taken_bytes(size_bytes)
        for index, (offset, end) in enumerate(self._gaps):
            if end - offset >= taken:
                self._gaps[index : index + 1] = [(offset + taken, end)] if end - offset > taken else []
                return offset
        offset = self.size_bytes
        if self._gaps and self._gaps[-1][1] == offset:
            offset = self._gaps.pop()[0]
        self.size_bytes = offset + taken
        return offset

    def give_back(self, offset: int, size_bytes: int) -> None:
        """Makes a gap of a tensor's bytes."""
        start, end = offset, offset + _taken_bytes(size_bytes)
        index = bisect(self._gaps, (start, end))
        if index < len(self._gaps) and self._gaps[index][0] == end:
            end = self._gaps.pop(index)[1]
        if index and self._gaps[index - 1][1] == start:
            index -= 1
            start = self._gaps.pop(index)[0]
        self._gaps.insert(index, (start, end))
