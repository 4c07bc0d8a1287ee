"""Einstein's notation as PyTorch's `einsum` reads it: a letter for each axis of each operand."""

import string
from collections.abc import Sequence
from dataclasses import dataclass

from aclgrad.errors import InvalidFieldError

Labels = tuple[str, ...]
Shape = tuple[int, ...]

_LETTERS = frozenset(string.ascii_letters)
_ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Subscripts:
    """A label for each axis of each operand, and of the result. Axes of `...` have their own labels."""

    inputs: tuple[Labels, ...]
    output: Labels

    @classmethod
    def of(cls, equation: str, shapes: Sequence[Shape]) -> "Subscripts":
        """Reads an equation; raises InvalidFieldError if it does not fit operands of these shapes."""
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
        """Whether an operand has a label twice, for its diagonal."""
        return any(len(set(labels)) < len(labels) for labels in self.inputs)


def _count(equation: str, term: str) -> int:
    """Returns the number of letters of a term; raises InvalidFieldError if it has other characters."""
    letters = term.replace(_ELLIPSIS, "", 1)
    if not _LETTERS.issuperset(letters):
        raise _wrong(equation, f"has {term!r}, which is not made of letters and one {_ELLIPSIS}")
    return len(letters)


def _labels(term: str, count: int, hidden: int) -> Labels:
    """Returns the labels of a term, whose ellipsis stands for this many of the last hidden axes."""
    front, ellipsis, back = term.partition(_ELLIPSIS)
    inside = [f".{number}" for number in range(hidden - count, hidden)] if ellipsis else []
    return (*front, *inside, *back)


def _wrong(equation: str, problem: str) -> InvalidFieldError:
    remedy = "give a letter for each axis of each operand, as torch.einsum takes it"
    return InvalidFieldError.at("equation", f"{equation!r} {problem}", remedy)
