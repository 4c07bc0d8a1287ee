"""The table of a program: copies of its arrays, each once."""

import math
from bisect import bisect_right, insort
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple

import numpy as np

from aclgrad._client.calls.arrays import Array
from aclgrad.errors import InvalidFieldError
from aclgrad.sources import InMessage, in_message
from aclgrad.tensors import DType, TensorType, View, dense_elements, laid_over

_NEIGHBOURS: Final = 4
"""How many preceding arrays are searched for one that contains it; a miss only costs bytes."""

_PIECE_BYTES: Final = 2**20
"""Bytes compared at a time."""


class Entry:
    """A copy of an array's elements, in the order of its memory; `type` is that of the tensor in a table."""

    __slots__ = ("_elements", "data", "type")

    def __init__(self, elements: Array, type: TensorType) -> None:
        # By numpy, which does not clear the memory first, and releases the GIL during large copies.
        self._elements = elements.copy()
        self.data = self._elements.data.toreadonly()
        self.type = type

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def size_bytes(self) -> int:
        return self.data.nbytes

    @property
    def source(self) -> InMessage:
        """The number of its bytes in a message."""
        return in_message(self.data)

    def has(self, elements: Array, start: int) -> bool:
        """Whether these are its bytes from the offset on."""
        own, given = self.data[start : start + elements.nbytes], elements.data
        pieces = range(0, elements.nbytes, _PIECE_BYTES)
        # memoryviews are compared element by element.
        return all(bytearray(own[at : at + _PIECE_BYTES]) == given[at : at + _PIECE_BYTES] for at in pieces)

    def shows(self, array: Array, view: View) -> bool:
        """Whether this view of its elements equals the array."""
        shown = laid_over(self._elements.view(array.dtype), view, array.shape)
        # Repeated elements are compared once.
        once = tuple(slice(None) if stride else slice(1) for stride in array.strides)
        return shown[once].tobytes() == array[once].tobytes()


class Kept(NamedTuple):
    """An array of a table: the entry, and the array's view of it."""

    entry: Entry
    view: View | None


class _Span(NamedTuple):
    """An entry's place in the caller's memory."""

    start: int
    end: int
    number: int
    """Distinct for each, because entries have no order."""
    entry: Entry


class Table:
    """Keeps copies of arrays. An array given again with the same values has the same entry, as do its views.

    It is found by its memory, and its values are compared: they may have changed, or the memory may be another array's.
    """

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        """Ascending by start."""
        self._numbers = count()
        self._outs: list[tuple[int, int]] = []
        """The memory of arrays for outputs: first byte and end, ascending."""
        self._packed: dict[tuple[int, tuple[int, ...], tuple[int, ...], str], Entry] = {}
        """Arrays with gaps between their elements, which are copied into one block."""

    @property
    def has_outs(self) -> bool:
        """Whether outputs go to the caller's arrays."""
        return bool(self._outs)

    def keep(self, array: Array, type: TensorType) -> Kept:
        """Returns an array of this type in the table."""
        is_row_major = array.flags.c_contiguous and array.size and array.dtype.isnative
        dense = array.reshape(-1) if is_row_major else dense_elements(array)
        if dense is None:
            return self._show(array, type.dtype) or Kept(self._pack(array, type), None)
        elements = dense.view(np.uint8)
        start = elements.__array_interface__["data"][0]
        found = self._find(start, elements, type.dtype)
        if found is None:
            whole = type if is_row_major else TensorType(type.dtype, dense.shape)
            found = Entry(elements, whole), 0
            insort(self._spans, _Span(start, start + elements.nbytes, next(self._numbers), found[0]))
        entry, offset = found
        if entry.type.shape == type.shape and is_row_major:
            return Kept(entry, None)
        strides = () if is_row_major else tuple(stride // array.itemsize for stride in array.strides)
        return Kept(entry, View(offset, strides))

    def claim(self, field: str, out: Array) -> None:
        """Raises InvalidFieldError if another step's output goes to this memory: one would be lost."""
        span, at = self._checked_span(field, out, "shares memory with the array of another step's output")
        self._outs.insert(at, span)

    def check_apart(self, field: str, array: Array) -> None:
        """Raises InvalidFieldError if an output goes to an array that is read while the program runs."""
        self._checked_span(field, array, "shares memory with the array (`out`) of a step's output")

    def _checked_span(self, field: str, array: Array, problem: str) -> tuple[tuple[int, int], int]:
        """Returns an array's memory and its position among the outputs' arrays, or raises if it overlaps one."""
        start = array.__array_interface__["data"][0]
        steps = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
        first, end = start + sum(min(each, 0) for each in steps), start + sum(max(each, 0) for each in steps)
        span = first, end + array.itemsize
        at = bisect_right(self._outs, span)
        if array.size and any(one[0] < span[1] and span[0] < one[1] for one in self._outs[max(at - 1, 0) : at + 1]):
            raise InvalidFieldError.at(field, problem, "give another array")
        return span, at

    def _find(self, start: int, elements: Array, dtype: DType) -> tuple[Entry, int] | None:
        """Returns the entry with these elements, and their offset in it."""
        for entry, offset in self._around(start, start + elements.nbytes, dtype):
            if entry.has(elements, offset):
                return entry, offset // dtype.itemsize
        return None

    def _show(self, array: Array, dtype: DType) -> Kept | None:
        """Returns an array with gaps as a view of an entry that has all elements."""
        strides = [stride if size > 1 else 0 for size, stride in zip(array.shape, array.strides, strict=True)]
        is_odd = any(each < 0 or each % dtype.itemsize for each in strides)
        if not array.size or not array.dtype.isnative or is_odd:
            return None
        view = View(0, tuple(each // dtype.itemsize for each in strides))
        start = array.__array_interface__["data"][0]
        for entry, offset in self._around(start, start + view.end(array.shape) * dtype.itemsize, dtype):
            shown = View(offset // dtype.itemsize, view.strides)
            if entry.shows(array, shown):
                return Kept(entry, shown)
        return None

    def _around(self, start: int, end: int, dtype: DType) -> Iterator[tuple[Entry, int]]:
        """Yields entries whose memory contained this range, and its offset in them."""
        position = bisect_right(self._spans, (start, math.inf))
        for first, last, _, entry in self._spans[max(0, position - _NEIGHBOURS) : position][::-1]:
            if last >= end and entry.dtype is dtype and not (start - first) % dtype.itemsize:
                yield entry, start - first

    def _pack(self, array: Array, type: TensorType) -> Entry:
        key = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
        elements = np.ascontiguousarray(array, type.dtype.numpy).reshape(-1).view(np.uint8)
        entry = self._packed.get(key)
        if entry is None or not entry.has(elements, 0):
            entry = self._packed[key] = Entry(elements, type)
        return entry
