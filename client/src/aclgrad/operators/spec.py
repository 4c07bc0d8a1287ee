"""What a row of the operator table says. Validation, client methods, ListOperators and the tests derive from it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.values import ValueRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from aclgrad.wire.messages import AttributeValue


class AttributeKind(Enum):
    """The kind of an attribute's value; the names are those of `aclgrad.v1.AttributeKind`."""

    BOOL = "a bool"
    INT = "an integer"
    DOUBLE = "a number"
    INTS = "a list of integers"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The inputs and attributes of one call, complete and of the right dtypes, ranks and kinds, by name."""

    inputs: Mapping[str, TensorType]
    attributes: Mapping[str, AttributeValue]

    def ints(self, name: str) -> tuple[int, ...]:
        """Returns an attribute that is a list of integers; raises TypeError for another kind."""
        value = self.attributes[name]
        if not isinstance(value, tuple):
            raise TypeError(f"{name} is {value!r}")
        return value

    def int(self, name: str) -> int:
        """Returns an attribute that is an integer; raises TypeError for another kind."""
        value = self.attributes[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}")
        return value


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: the dtypes that each product takes (a product without a row takes none) and the ranks.

    `unread_on` names the products on which the device is known not to read the values, so that a client may send the
    shape alone, and `read_for` tells the calls that are an exception; None means that the values always matter.
    `values` gives the rule that the values have to keep, or None where any will do.
    """

    name: str
    summary: str
    dtypes: Mapping[Product, tuple[str, ...]]
    ranks: tuple[int, ...]
    unread_on: frozenset[Product] | None = None
    read_for: Callable[[Arguments], bool] = lambda _: False
    values: Callable[[Arguments, Product], ValueRule | None] = lambda *_: None

    @property
    def python_name(self) -> str:
        """The parameter of the client method: a method has its own `self`, so CANN's is called `input` there."""
        return "input" if self.name == "self" else self.name

    def takes_shape(self, product: Product, shape_only: bool | None) -> bool:
        """Says whether a server takes the shape in place of the values.

        `shape_only` is what holds for inputs that the operator does not read: always, never, or, where it is None, as
        it is known of the product.
        """
        if self.unread_on is None:
            return False
        return product in self.unread_on if shape_only is None else shape_only


@dataclass(frozen=True, slots=True)
class AttributeSpec:
    """One attribute; without a default it is required. The bounds hold for each value of a list."""

    name: str
    summary: str
    kind: AttributeKind
    lengths: tuple[int, ...] = ()
    default: AttributeValue | None = None
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """The output: `infer` gives its type and shape for legal arguments, `rule` says the same in words."""

    name: str
    rule: str
    infer: Callable[[Arguments], TensorType]


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the float64 definition: `|result - truth| <= absolute + relative * |truth|`."""

    relative: float
    absolute: float


Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True)
class Case:
    """One example of an operator: shapes and attributes.

    It is run with every dtype of the operator, or those of `only`, and on the given products; `fixed` has the dtype of
    inputs that have one of their own.
    """

    name: str
    shapes: Mapping[str, tuple[int, ...]]
    attributes: Mapping[str, AttributeValue]
    fixed: Mapping[str, str]
    only: tuple[str, ...]
    products: tuple[Product, ...]


def _any_values(generator: np.random.Generator, case: Case, arrays: Arrays) -> Arrays:
    return arrays


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator.

    `check` yields what the table cannot say: how inputs and attributes have to fit each other. `sample` puts values
    that are legal in place of the standard normal ones that a case starts with. `coarse` has the tolerances of products
    that compute with less precision than the dtype has.
    """

    name: str
    symbol: str
    summary: str
    formula: str
    inputs: tuple[InputSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    output: OutputSpec
    check: Callable[[Arguments], Iterator[Violation]]
    tolerances: Mapping[str, Tolerance]
    cases: tuple[Case, ...]
    sample: Callable[[np.random.Generator, Case, Arrays], Arrays] = _any_values
    coarse: Mapping[tuple[Product, str], Tolerance] = field(default_factory=dict)

    @property
    def products(self) -> frozenset[Product]:
        """The products that have the operator."""
        return frozenset.intersection(*(frozenset(spec.dtypes) for spec in self.inputs))

    def tolerance(self, product: Product, dtype: str) -> Tolerance:
        """Returns how far the product's result may be from the definition."""
        return self.coarse.get((product, dtype), self.tolerances[dtype])


def same_on(products: tuple[Product, ...], dtypes: tuple[str, ...]) -> dict[Product, tuple[str, ...]]:
    """Returns the dtype table of an input that takes the same dtypes on these products."""
    return dict.fromkeys(products, dtypes)


def case(
    name: str,
    attributes: Mapping[str, AttributeValue] | None = None,
    *,
    fixed: Mapping[str, str] | None = None,
    only: tuple[str, ...] = (),
    products: tuple[Product, ...] = tuple(Product),
    **shapes: tuple[int, ...],
) -> Case:
    """Returns a case; the shape of CANN's `self` is given as `input`."""
    named = {"self" if key == "input" else key: shape for key, shape in shapes.items()}
    return Case(name, named, attributes or {}, fixed or {}, only, products)
