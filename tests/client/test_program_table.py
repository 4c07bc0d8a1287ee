"""The table of a program has the elements of every array as they were when it came, and none of them twice."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import aclgrad
from aclgrad._client.programs.table import Entry, Table
from aclgrad.sources import in_message
from aclgrad.tensors import TensorView, array_of_view, type_of_array

Array = np.ndarray[Any, Any]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass
class Sent:
    """What a table has of arrays, and how they looked when they were given."""

    table: Table = field(default_factory=Table)
    given: list[tuple[Array, TensorView]] = field(default_factory=list)
    entries: dict[int, Entry] = field(default_factory=dict)

    def keep(self, *arrays: Array) -> None:
        for array in arrays:
            entry, view = self.table.keep(array, type_of_array("a", array))
            assert view is not None or entry.type == type_of_array("a", array)
            assert entry.data.readonly
            assert entry.data.nbytes == entry.type.size_bytes
            self.entries[id(entry)] = entry
            tensor = TensorView("a", type_of_array("a", array), in_message(entry.data), view)
            self.given.append((array.copy(), tensor))

    def check(self, size_bytes: int) -> None:
        """Checks all elements, and how many bytes there are of them together."""
        for array, tensor in self.given:
            arrived = array_of_view(tensor)
            assert arrived.dtype == array.dtype.newbyteorder("=")
            assert arrived.tobytes() == array.astype(arrived.dtype).tobytes()
        assert sum(each.data.nbytes for each in self.entries.values()) == size_bytes


@pytest.fixture
def sent() -> Sent:
    return Sent()


X = np.random.default_rng(0).standard_normal((4, 6), np.float32)
VIEWS: dict[str, Callable[[Array], Array]] = {
    "itself": lambda x: x,
    "transposed": lambda x: x.T,
    "rows": lambda x: x[1:3],
    "row": lambda x: x[2],
    "transposed rows": lambda x: x[1:3].T,
    "element": lambda x: x[2, 3:4],
    "scalar": lambda x: x[2, 3, ...],
    "flat": lambda x: x.reshape(-1),
    "reshaped": lambda x: x.reshape(2, 3, 4),
    "part of it flat": lambda x: x.reshape(-1)[5:17].reshape(3, 4),
    "broadcast": lambda x: np.broadcast_to(x, (3, 4, 6)),
    "broadcast row": lambda x: np.broadcast_to(x[1], (4, 6)),
    "broadcast element": lambda x: np.broadcast_to(x[1, 1, ...], (4, 6)),
    "read-only": lambda x: np.frombuffer(memoryview(x).cast("B").toreadonly(), x.dtype),  # type: ignore[call-overload]
    "columns": lambda x: x[:, 1:3],
    "every other row": lambda x: x[::2],
    "every other column": lambda x: x[:, ::2],
    "column": lambda x: x[:, 1],
    "columns transposed": lambda x: x[:, 1:3].T,
    "diagonal": lambda x: x.reshape(-1)[::7],
    "broadcast column": lambda x: np.broadcast_to(x[:, 1:2], (4, 6)),
    "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)),
    "new axis": lambda x: x[:, None, 2:],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_an_array_are_sent_with_it(sent: Sent, view: Callable[[Array], Array]) -> None:
    sent.keep(X, view(X), X.T, view(X).T)
    sent.check(X.nbytes)


def test_a_part_is_sent_once_though_the_whole_comes_later(sent: Sent) -> None:
    """Only a part that comes after the whole is known to be one."""
    sent.keep(X[1:3], X[1:3].T, X, X[1:3], X[:, 2:4])
    sent.check(X[1:3].nbytes + X.nbytes)


def test_a_large_array_and_its_views(sent: Sent) -> None:
    """What is compared goes piece by piece."""
    large = np.random.default_rng(1).standard_normal((700, 1000), np.float32)
    sent.keep(large, large[100:600], large[100:600].T, large[:, 1:], large[1:])
    sent.check(large.nbytes)
    last = large.copy()
    last[599, 999] += 1
    large[...] = last
    sent.keep(large[100:600], large[100:599])
    sent.check(large.nbytes + 500 * 4000)


CHANGES: dict[str, Callable[[Array], Array]] = {
    "the same values": lambda x: x,
    "the first": lambda x: np.where(np.arange(x.size).reshape(x.shape) == 0, 9, x),
    "the last": lambda x: np.where(np.arange(x.size).reshape(x.shape) == x.size - 1, 9, x),
    "the sign of zero": lambda x: x * 0 * np.where(x < 0, -1, 1),
    "the bits of NaN": lambda x: (np.uint32(0x7FC00001) + np.zeros(x.shape, np.uint32)).view(np.float32),
}


@pytest.mark.parametrize("view", ["itself", "transposed", "rows", "columns", "column"])
def test_changed_arrays_are_sent_again(sent: Sent, view: str) -> None:
    """Each change once, by its bits."""
    x, before, size_bytes = X.copy(), b"", 0
    for change in CHANGES.values():
        x[...] = change(x)
        array = VIEWS[view](x)
        if array.tobytes() != before:
            size_bytes += array.nbytes
        before = array.tobytes()
        sent.keep(array, array)
    sent.check(size_bytes)


def test_an_array_in_the_memory_of_another(sent: Sent) -> None:
    """Of the same and of other shapes, dtypes and places."""
    memory = bytearray(X.tobytes())
    first = np.frombuffer(memory, np.float32)
    sent.keep(first)
    memory[:] = bytes(range(96))
    again = np.frombuffer(memory, np.float32).reshape(4, 6)
    other = np.frombuffer(memory, np.int32)
    short = np.frombuffer(memory, np.float32, 5, 8)
    shifted = np.frombuffer(memory, np.float32, 5, 2)
    sent.keep(again, other, short, shifted, other[3:])
    sent.check(96 + 96 + 96 + 20)


def test_other_dtypes_of_the_same_memory_are_other_tensors(sent: Sent) -> None:
    sent.keep(X, X.view(np.int32), X.view(np.complex64), X.view(BFLOAT16), X.view(np.uint8), X.view(np.int32))
    sent.check(5 * X.nbytes)


KINDS: dict[str, Callable[[Array], Array]] = {
    "fortran": np.asfortranarray,
    "reversed": lambda x: x[::-1, ::-1],
    "reversed rows": lambda x: x[::-1],
    "big-endian": lambda x: x.astype(">f4"),
    "big-endian transposed": lambda x: x.astype(">f4").T,
    "bfloat16": lambda x: x.astype(BFLOAT16),
    "bool": lambda x: x > 0,
    "complex128": lambda x: x.astype(np.complex128),
    "unaligned": lambda x: np.frombuffer(b"x" + x.tobytes(), np.float32, x.size, 1).reshape(x.shape),
    "field": lambda x: np.repeat(x, 2).view("f4,V4")["f0"],
    "odd field": lambda x: np.zeros(9, "f4,i2")["f0"],
    "0-d": lambda x: x[0, 0, ...].copy(),
    "empty": lambda x: x[:, :0].copy(),
    "empty part": lambda x: x[4:],
    "one": lambda x: x[:1, :1],
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_kinds_of_arrays(sent: Sent, kind: Callable[[Array], Array]) -> None:
    array = kind(X)
    sent.keep(array, array, array, kind(X.copy()))
    sent.check(2 * array.nbytes)


def test_arrays_side_by_side_are_not_mixed_up(sent: Sent) -> None:
    both = np.arange(48, dtype=np.float32)
    sent.keep(both[:24], both[24:], both[24:].reshape(4, 6), both[12:36], both[12:13], both[24:25])
    sent.check(both.nbytes + 24 * 4)


def test_nothing_of_a_freed_array_is_taken_for_another() -> None:
    """numpy gives its memory to the next array."""
    table, kept, addresses = Table(), [], set()
    for number in range(50):
        array = np.full((8, 8), number, np.float32)
        addresses.add(array.__array_interface__["data"][0])
        views = array[:, :4], array, array[2:]
        kept.append([table.keep(each, type_of_array("a", each)) for each in views])
        del array, views
    assert len(addresses) < 50
    for number, (part, (entry, _), (again, _)) in enumerate(kept):
        assert bytes(part.entry.data) == np.full(32, number, np.float32).tobytes()
        assert bytes(entry.data) == np.full(64, number, np.float32).tobytes()
        assert again is entry


@given(data=st.data())
def test_random_arrays_of_one_memory(data: st.DataObject) -> None:
    """Whatever comes, in whatever order: elements are right, and no table has an array twice."""
    sent = Sent()
    memory = np.arange(60, dtype=np.float32)
    for _ in range(data.draw(st.integers(1, 8))):
        sizes = data.draw(st.lists(st.integers(0, 4), max_size=3))
        strides = [data.draw(st.integers(-5, 5)) for _ in sizes]
        lowest = sum(min(0, (size - 1) * each) for size, each in zip(sizes, strides, strict=True) if size)
        highest = sum(max(0, (size - 1) * each) for size, each in zip(sizes, strides, strict=True) if size)
        start = data.draw(st.integers(-lowest, 59 - highest))
        array = as_strided(memory[start:], sizes, [4 * each for each in strides])
        sent.keep(array)
        count = len(sent.entries)
        sent.keep(array, array)
        assert len(sent.entries) == count
        if data.draw(st.booleans()):
            memory[data.draw(st.integers(0, 59))] += 100
    sent.check(sum(each.data.nbytes for each in sent.entries.values()))


def test_a_dtype_that_the_wire_does_not_have(sent: Sent) -> None:
    for array in (np.array(["a"]), np.array([1], "M8[s]"), np.zeros(2, np.float128), np.zeros(2, [("a", "f4")])):
        with pytest.raises(aclgrad.InvalidFieldError, match="which the wire does not have"):
            sent.keep(array)
    sent.check(0)


def test_memory_that_two_outputs_would_share_is_refused() -> None:
    table, out = Table(), np.zeros((4, 8), np.float32)
    table.claim("out", out[1:3])
    table.claim("out", out[:1])
    table.claim("out", np.zeros(0, np.float32))
    table.claim("out", out[3:, ::-1])
    for again in (out, out[2], out[1:2, 3:4], out[::-1], out.T, out.view(np.uint8)[3:]):
        with pytest.raises(aclgrad.InvalidFieldError, match="shares memory with the array of another step"):
            table.claim("out", again)
    table.claim("out", np.zeros((4, 8), np.float32))
