"""Offsets are those that a plain search of the first gap finds, so tensors never overlap and gaps are joined."""

from hypothesis import given
from hypothesis import strategies as st

from aclgrad_server.calls.arena import Arena

UNIT = 512
TAIL_BYTES = 32


class Plain:
    """One flag for each unit of memory."""

    def __init__(self) -> None:
        self.taken: list[bool] = []

    def take(self, size_bytes: int) -> int:
        count = -(-(size_bytes + TAIL_BYTES) // UNIT)
        start = 0
        while any(self.taken[start : start + count]):
            start += 1
        self.taken += [False] * (start + count - len(self.taken))
        self.taken[start : start + count] = [True] * count
        return start * UNIT

    def give_back(self, offset: int, size_bytes: int) -> None:
        count = -(-(size_bytes + TAIL_BYTES) // UNIT)
        self.taken[offset // UNIT : offset // UNIT + count] = [False] * count


SIZES = st.one_of(st.integers(0, 3000), st.sampled_from([0, UNIT - TAIL_BYTES, UNIT - TAIL_BYTES + 1, UNIT, 2 * UNIT]))


@given(st.lists(st.one_of(SIZES, st.floats(0, 0.999)), max_size=60))
def test_a_tensor_gets_the_first_gap_that_is_large_enough(actions: list[int | float]) -> None:
    """An integer takes so many bytes, a fraction gives back one of the tensors there are."""
    arena, plain, there = Arena(), Plain(), []
    for each in actions:
        if isinstance(each, int):
            offset = arena.take(each)
            assert offset == plain.take(each)
            there.append((offset, each))
        elif there:
            given_back = there.pop(int(each * len(there)))
            arena.give_back(*given_back)
            plain.give_back(*given_back)
        assert arena.size_bytes == len(plain.taken) * UNIT
        assert all(offset + size_bytes + TAIL_BYTES <= arena.size_bytes for offset, size_bytes in there)
    for each in there:
        arena.give_back(*each)
    whole = arena.size_bytes
    if whole:
        assert arena.take(whole - TAIL_BYTES) == 0, "all gaps are one"
        assert arena.size_bytes == whole
