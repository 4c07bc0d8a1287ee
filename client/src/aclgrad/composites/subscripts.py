"""Einstein's notation as PyTorch's `einsum` reads it, and its way to compute: products of batches, pair by pair.

`contracted` is `sumproduct_pair` of PyTorch's sources (aten/src/ATen/native/Linear.cpp) in words: of two operands, axes
that both have and that are kept are a batch; those that both have and nobody needs later are summed by the product.
"""

import math
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from aclgrad.errors import InvalidFieldError

T = TypeVar("T")
Labels = tuple[str, ...]
Shape = tuple[int, ...]

_LETTERS = frozenset(string.ascii_letters)
_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Subscripts:
    """A label for each axis of each operand, and of the result. What `...` stands for has labels of its own."""

    inputs: tuple[Labels, ...]
    output: Labels

    @classmethod
    def of(cls, equation: str, shapes: Sequence[Shape]) -> "Subscripts":
        """Reads an equation; raises InvalidFieldError for one that does not fit operands of these shapes."""
        left, arrow, right = equation.replace(" ", "").partition("->")
        terms = left.split(",")
        if len(terms) != len(shapes):
            raise _wrong(equation, f"has {len(terms)} operands, and there are {len(shapes)}")
        rest = [len(shape) - _count(equation, term) for term, shape in zip(terms, shapes, strict=True)]
        # A list, because torch.compile traces it.
        hidden = max([count for count, term in zip(rest, terms, strict=True) if _ELLIPSIS in term], default=0)
        for number, (term, count) in enumerate(zip(terms, rest, strict=True)):
            if count < 0 or (count and _ELLIPSIS not in term):
                raise _wrong(equation, f"has {term!r} for operand {number}, of shape {tuple(shapes[number])}")
        inputs = tuple(_labels(term, count, hidden) for term, count in zip(terms, rest, strict=True))
        if arrow:
            _count(equation, right)
            output = _labels(right, hidden, hidden)
        else:
            once = sorted(label for label in left if label in _LETTERS and left.count(label) == 1)
            output = (*_labels(_ELLIPSIS, hidden, hidden), *once)
        known = {label for labels in inputs for label in labels}
        if len(set(output)) < len(output) or not known.issuperset(output):
            raise _wrong(equation, f"has {right!r}, whose letters are not each once among the operands'")
        found = cls(inputs, output)
        found._check_sizes(equation, shapes)
        return found

    def _check_sizes(self, equation: str, shapes: Sequence[Shape]) -> None:
        sizes: dict[str, int] = {}
        for labels, shape in zip(self.inputs, shapes, strict=True):
            for label, size in zip(labels, shape, strict=True):
                if (twice := shape[labels.index(label)]) != size:
                    raise _wrong(equation, f"has {label!r} twice in an operand, for sizes of {twice} and {size}")
                if sizes.get(label, 1) != 1 and size not in (1, sizes[label]):
                    raise _wrong(equation, f"has {label!r} for sizes of {sizes[label]} and {size}")
                if sizes.get(label, 1) == 1:
                    sizes[label] = size

    def output_shape(self, shapes: Sequence[Shape]) -> Shape:
        """Returns the shape of the result of operands of these shapes."""
        sizes: dict[str, int] = {}
        for labels, shape in zip(self.inputs, shapes, strict=True):
            for label, size in zip(labels, shape, strict=True):
                sizes[label] = size if sizes.get(label, 1) == 1 else sizes[label]
        return tuple(sizes[label] for label in self.output)

    @property
    def repeats(self) -> bool:
        """Whether an operand has a label twice, of which the diagonal counts."""
        return any(len(set(labels)) < len(labels) for labels in self.inputs)


@dataclass(frozen=True, slots=True)
class Maths(Generic[T]):
    """What a library has for arrays, which know their `shape`: axes are not negative, and sums drop them."""

    transpose: Callable[[T, Sequence[int]], T]
    reshape: Callable[[T, Sequence[int]], T]
    sum: Callable[[T, Sequence[int]], T]
    bmm: Callable[[T, T], T]


@dataclass(frozen=True, slots=True)
class Labelled(Generic[T]):
    """An array, and a label for each of its axes."""

    array: T
    labels: Labels

    def size(self, label: str) -> int:
        array: Any = self.array
        return int(array.shape[self.labels.index(label)])

    def sizes(self, labels: Sequence[str]) -> list[int]:
        return [self.size(each) for each in labels]


def einsum(subscripts: Subscripts, operands: Sequence[T], maths: Maths[T]) -> T:
    """Returns the result, from left to right; no operand may have a label twice."""
    terms = [Labelled(array, labels) for array, labels in zip(operands, subscripts.inputs, strict=True)]
    found = terms[0]
    for number, each in enumerate(terms[1:], 1):
        later = {label for other in terms[number + 1 :] for label in other.labels}
        found = contracted(found, each, later.union(subscripts.output), maths)
    return _in_order(_needed(found, subscripts.output, maths), subscripts.output, maths)


def contracted(one: Labelled[T], two: Labelled[T], kept: Collection[str], maths: Maths[T]) -> Labelled[T]:
    """Returns the product of two operands with the labels that are kept."""
    one, two = _unrepeated(one, two, maths), _unrepeated(two, one, maths)
    one, two = _needed(one, {*kept, *two.labels}, maths), _needed(two, {*kept, *one.labels}, maths)
    both = [label for label in one.labels if label in two.labels]
    batch = [label for label in both if label in kept]
    terms = [label for label in both if label not in kept]
    rows = [label for label in one.labels if label not in both]
    columns = [label for label in two.labels if label not in both]
    left = _grouped(one, (batch, rows, terms), maths)
    right = _grouped(two, (batch, terms, columns), maths)
    labels = (*batch, *rows, *columns)
    sizes = [*one.sizes(batch), *one.sizes(rows), *two.sizes(columns)]
    return Labelled(maths.reshape(maths.bmm(left, right), sizes), labels)


def _unrepeated(own: Labelled[T], other: Labelled[T], maths: Maths[T]) -> Labelled[T]:
    """Drops axes of one element that are broadcast."""
    labels = tuple(
        label for label in own.labels if own.size(label) != 1 or label not in other.labels or other.size(label) == 1
    )
    return own if labels == own.labels else Labelled(maths.reshape(own.array, own.sizes(labels)), labels)


def _needed(term: Labelled[T], labels: Collection[str], maths: Maths[T]) -> Labelled[T]:
    """Sums over what nobody needs."""
    axes = [axis for axis, label in enumerate(term.labels) if label not in labels]
    if not axes:
        return term
    return Labelled(maths.sum(term.array, axes), tuple(each for each in term.labels if each in labels))


def _in_order(term: Labelled[T], labels: Labels, maths: Maths[T]) -> T:
    axes = [term.labels.index(label) for label in labels]
    return term.array if axes == sorted(axes) else maths.transpose(term.array, axes)


def _grouped(term: Labelled[T], groups: Sequence[Sequence[str]], maths: Maths[T]) -> T:
    """Returns the array with an axis for each group of labels."""
    ordered = _in_order(term, tuple(label for group in groups for label in group), maths)
    return maths.reshape(ordered, [math.prod(term.sizes(group)) for group in groups])


def _count(equation: str, term: str) -> int:
    """Returns how many letters a term has; raises InvalidFieldError for anything else in it."""
    letters = term.replace(_ELLIPSIS, "", 1)
    if not _LETTERS.issuperset(letters):
        raise _wrong(equation, f"has {term!r}, which is not made of letters and one {_ELLIPSIS}")
    return len(letters)


def _labels(term: str, count: int, hidden: int) -> Labels:
    """Returns the labels of a term, whose ellipsis stands for so many of the hidden axes, the last ones."""
    front, ellipsis, back = term.partition(_ELLIPSIS)
    inside = [f".{number}" for number in range(hidden - count, hidden)] if ellipsis else []
    return (*front, *inside, *back)


def _wrong(equation: str, problem: str) -> InvalidFieldError:
    remedy = "give a letter for each axis of each operand, as torch.einsum takes it"
    return InvalidFieldError.at("equation", f"{equation!r} {problem}", remedy)
