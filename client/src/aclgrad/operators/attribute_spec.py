"""Attributes in the operator table: kinds and ranges of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from aclgrad.errors import Violation
from aclgrad.tensors import DType
from aclgrad.wire.values import AttributeValue

if TYPE_CHECKING:
    from aclgrad.operators.spec import Arguments
    from aclgrad.products import Product

Bound = float | tuple[float, ...] | None


class AttributeKind(Enum):
    """The kind of an attribute's value; the names are those of `aclgrad.v1.AttributeKind`."""

    BOOL = "a bool"
    INT = "an integer"
    DOUBLE = "a number"
    INTS = "a list of integers"
    TEXT = "a text"
    BOOLS = "a list of bools"
    DATA_TYPE = "a data type"
    SCALAR = "a number, an integer or a bool"

    @property
    def types(self) -> tuple[type[AttributeValue], ...]:
        """The Python types of a value."""
        return _TYPES[self]


_TYPES: Final[dict[AttributeKind, tuple[type[AttributeValue], ...]]] = {
    AttributeKind.BOOL: (bool,),
    AttributeKind.INT: (int,),
    AttributeKind.DOUBLE: (float,),
    AttributeKind.INTS: (tuple,),
    AttributeKind.TEXT: (str,),
    AttributeKind.BOOLS: (tuple,),
    AttributeKind.DATA_TYPE: (DType,),
    AttributeKind.SCALAR: (float, int, bool),
}


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """One attribute; without a default it is required, unless it is optional: the operator then gets null.

    `lengths` has the possible lengths of a list, and `choices` the possible texts, or the names of possible dtypes. A
    bound applies to each value of a list; a tuple has one bound for each value. Infinity and NaN are never legal.
    `read_as` returns the operator's value for the caller's, which is None for an omitted optional one. The operator
    does not get one that is not passed, which describes an output. `refused` has values that callers may expect to
    work, and why they do not.
    """

    name: str
    summary: str
    kind: AttributeKind
    lengths: tuple[int, ...] = ()
    default: AttributeValue | None = None
    minimum: Bound = None
    maximum: Bound = None
    choices: tuple[str, ...] = ()
    is_optional: bool = False
    is_passed: bool = True
    read_as: Callable[[Arguments, Product], AttributeValue | None] | None = None
    refused: Mapping[AttributeValue, str] = field(default_factory=dict, hash=False)

    def given(self, arguments: Arguments, product: Product) -> AttributeValue | None:
        """Returns the operator's value on the product; None for null."""
        return self.read_as(arguments, product) if self.read_as else arguments.attributes[self.name]

    @property
    def is_required(self) -> bool:
        return self.default is None and not self.is_optional

    def check(self, value: AttributeValue | None) -> Iterator[Violation]:
        """Yields the problems of a value."""
        field = f"attributes[{self.name}]"
        if value is None and self.is_optional:
            return
        absent = ", or leave it out" if self.is_optional else ""
        if not self._is_of_kind(value):
            shown = str(value) if isinstance(value, DType) else repr(value)
            yield Violation(field, f"is {shown}", f"send {self.kind.value}{absent}")
            return
        if isinstance(value, (str, int)) and value in self.refused:
            remedy = f"send {' or '.join(map(repr, self.choices)) or f'{self.minimum} to {self.maximum}'}{absent}"
            yield Violation(field, f"is {value!r}, which is not served: {self.refused[value]}", remedy)
            return
        if isinstance(value, (str, DType)):
            if str(value) not in self.choices:
                yield Violation(field, f"is {str(value)!r}", f"send {' or '.join(map(repr, self.choices))}{absent}")
            return
        values = value if isinstance(value, tuple) else (value,)
        if self.lengths and len(values) not in self.lengths:
            yield Violation(field, f"has {len(values)} values", f"send {counts(self.lengths)}{absent}")
            return
        for position, each in enumerate(values):
            minimum, maximum = _bound(self.minimum, position), _bound(self.maximum, position)
            field = f"attributes[{self.name}][{position}]" if len(values) > 1 else f"attributes[{self.name}]"
            if not math.isfinite(each):
                yield Violation(field, f"is {each}", "send a finite number")
            elif minimum is not None and each < minimum:
                yield Violation(field, f"is {each}", f"send at least {minimum}")
            elif maximum is not None and each > maximum:
                yield Violation(field, f"is {each}", f"send at most {maximum}")

    def _is_of_kind(self, value: AttributeValue | None) -> bool:
        if type(value) not in self.kind.types:
            return False
        return not isinstance(value, tuple) or all(
            (type(each) is bool) == (self.kind is AttributeKind.BOOLS) for each in value
        )


def counts(numbers: Sequence[int]) -> str:
    """Returns "3 or 4", or "1 to 8" if that is shorter."""
    first, last = min(numbers), max(numbers)
    if len(numbers) > 2 and sorted(numbers) == list(range(first, last + 1)):
        return f"{first} to {last}"
    return " or ".join(map(str, numbers))


def _bound(bound: Bound, position: int) -> float | None:
    return bound[position] if isinstance(bound, tuple) else bound
