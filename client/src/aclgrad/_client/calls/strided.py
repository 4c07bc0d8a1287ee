"""Views of handles, without elements: shapes, offsets and strides as in numpy."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from aclgrad.errors import InvalidFieldError
from aclgrad.tensors import row_major

_ITEMS = "give integers, slices with steps of at least 1, ... and None"


@dataclass(frozen=True, slots=True)
class Strided:
    """The elements of a view: offset and strides count elements and are not negative.

    Its methods are numpy's that make views; they raise InvalidFieldError for an impossible view.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def whole(cls, shape: tuple[int, ...]) -> Self:
        """Returns the view of all elements, as they lie."""
        return cls(shape, row_major(shape))

    def transpose(self, axes: Sequence[int]) -> "Strided":
        rank = len(self.shape)
        order = [axis + rank if axis < 0 else axis for axis in map(operator.index, axes)]
        if sorted(order) != list(range(rank)):
            raise InvalidFieldError.at("axes", f"is {tuple(axes)}", f"name each of the {rank} axes once")
        return Strided(tuple(self.shape[i] for i in order), tuple(self.strides[i] for i in order), self.offset)

    def broadcast_to(self, shape: Sequence[int]) -> "Strided":
        sizes = tuple(map(operator.index, shape))
        added = len(sizes) - len(self.shape)
        fits = [own in (1, size) for own, size in zip(self.shape, sizes[max(added, 0) :], strict=False)]
        if added < 0 or not all(fits) or min(sizes, default=0) < 0:
            problem = f"is {sizes}, to which {self.shape} cannot be broadcast"
            raise InvalidFieldError.at(
                "shape", problem, "give a shape whose last sizes are its own, or are in place of 1"
            )
        pairs = zip(self.shape, self.strides, sizes[added:], strict=True)
        return Strided(sizes, (0,) * added + tuple(s if own == size else 0 for own, s, size in pairs), self.offset)

    def reshape(self, shape: Sequence[int]) -> "Strided":
        sizes = self._sizes(tuple(map(operator.index, shape)))
        strides = _split(self._runs(), sizes) if 0 not in sizes else row_major(sizes)
        if strides is None:
            problem = f"is {sizes}, as which a view of {self.shape} with strides {self.strides} cannot be read"
            raise InvalidFieldError.at("shape", problem, "reshape before transposing or slicing: a view copies nothing")
        return Strided(sizes, strides, self.offset)

    def _sizes(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape with -1 replaced by its size."""
        count, known = _product(self.shape), _product(size for size in shape if size != -1)
        if shape.count(-1) == 1 and known:
            shape = tuple(count // known if size == -1 else size for size in shape)
        if min(shape, default=0) < 0 or _product(shape) != count:
            raise InvalidFieldError.at("shape", f"is {shape}, and {self.shape} has {count} elements", "give as many")
        return shape

    def _runs(self) -> list[tuple[int, int]]:
        """Returns size and stride of the fewest axes with the same order of elements."""
        runs: list[tuple[int, int]] = []
        for size, stride in zip(self.shape, self.strides, strict=True):
            if size == 1:
                continue
            if runs and runs[-1][1] == size * stride:
                runs[-1] = (runs[-1][0] * size, stride)
            else:
                runs.append((size, stride))
        return runs

    def __getitem__(self, items: Any) -> "Strided":
        """Raises IndexError, as sequences do, for an integer out of range."""
        items = items if isinstance(items, tuple) else (items,)
        ellipses = [i for i, each in enumerate(items) if each is Ellipsis]
        taken = sum(each is not None and each is not Ellipsis for each in items)
        if len(ellipses) > 1 or taken > len(self.shape):
            problem = f"has {taken} items for the {len(self.shape)} axes of {self.shape}"
            raise InvalidFieldError.at("index", problem, "give at most one for each, and one ... at most")
        rest = (slice(None),) * (len(self.shape) - taken)
        where = ellipses[0] if ellipses else len(items)
        shape, strides, offset, axis = [], [], self.offset, 0
        for item in (*items[:where], *rest, *items[where + 1 :]):
            if item is None:
                shape.append(1)
                strides.append(0)
                continue
            size, stride = self.shape[axis], self.strides[axis]
            axis += 1
            if isinstance(item, slice):
                chosen = _range(item, size)
                shape.append(len(chosen))
                # A step past the end may be too large for the wire.
                strides.append(stride * chosen.step if len(chosen) > 1 else 0)
                offset += stride * chosen.start if chosen else 0
            else:
                offset += stride * _position(item, size)
        return Strided(tuple(shape), tuple(strides), offset)


def _range(item: slice, size: int) -> range:
    try:
        chosen = range(*item.indices(size))
    except (TypeError, ValueError) as error:
        raise InvalidFieldError.at("index", f"has {item}", _ITEMS) from error
    if chosen.step < 1:
        raise InvalidFieldError.at("index", f"has a step of {chosen.step}", "take elements in their order")
    return chosen


def _position(item: Any, size: int) -> int:
    try:
        if isinstance(item, bool):
            raise TypeError("a mask is no position")
        position = operator.index(item)
    except TypeError as error:
        raise InvalidFieldError.at("index", f"has a {type(item).__name__}", _ITEMS) from error
    if not -size <= position < size:
        raise IndexError(f"the index {position} is out of range for an axis of {size}")
    return position % size


def _split(runs: Sequence[tuple[int, int]], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Returns the strides of axes of these sizes over the runs, or None."""
    left = list(reversed(runs))
    strides = []
    for size in sizes:
        if size == 1:
            strides.append(0)
            continue
        count, stride = left.pop()
        if count % size:
            return None
        if count > size:
            left.append((count // size, stride))
        strides.append(stride * (count // size))
    return tuple(strides)


def _product(sizes: Any) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product
