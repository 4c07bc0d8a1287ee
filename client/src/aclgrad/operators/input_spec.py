"""Inputs in the operator table: their types, when their values matter, and their substitutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aclgrad.operators.values import BoolRule, ValueRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

if TYPE_CHECKING:
    from aclgrad.operators.spec import Arguments

MAX_TENSORS: Final = 1024
"""The most tensors of a list."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The operator's substitute for an omitted input. A device keeps one copy of the bytes."""

    name: str
    type: TensorType
    data: Callable[[], bytes] = field(compare=False)


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input: the dtypes that each product takes (a product without a row takes none) and the ranks.

    `unread_on` has the products whose devices are known not to read the values, so that a client may send only the
    shape; None means that the values always matter. `read_for` returns true for exceptional calls that read them. If
    only `of_outputs` depend on the values, these do not matter, on any product, to a call that wants none of them; with
    `read_if`, they only matter to calls for which it is true. `values` returns the rule that the values must follow, or
    None if any are legal. An optional input may be omitted: the operator then gets null, or `stands_in`. With `lanes`
    it gets each value that many times along a last axis, which the input may lack or have. A list stands for 1 to
    `MAX_TENSORS` inputs with its name and their positions: `tensors_0`, `tensors_1` and so on.
    """

    name: str
    summary: str
    dtypes: Mapping[Product, tuple[str, ...]]
    ranks: tuple[int, ...]
    unread_on: frozenset[Product] | None = None
    read_for: Callable[[Arguments], bool] = lambda _: False
    values: Callable[[Arguments, Product], ValueRule | None] = lambda *_: None
    is_optional: bool = False
    of_outputs: tuple[str, ...] = ()
    read_if: Callable[[Arguments], bool] | None = None
    is_list: bool = False
    lanes: int = 0
    stands_in: Callable[[Arguments], Constant | None] = lambda _: None

    @property
    def python_name(self) -> str:
        """The parameter's name in the client method, which has its own `self`, so CANN's `self` is `input` there."""
        return "input" if self.name == "self" else self.name

    def lanes_of(self, type: TensorType) -> int:
        """Returns how often the operator gets each value of an input of the type; 0 if the input has the axis."""
        return self.lanes if type.rank < max(self.ranks) else 0

    def rule(self, arguments: Arguments, product: Product) -> ValueRule | None:
        """Returns the rule that the values must follow, or None if any values are legal."""
        if self.read_if is not None and not self.read_if(arguments):
            return None
        own = self.values(arguments, product)
        is_bool = own is None and arguments.inputs[self.name].dtype.name == "bool"
        return BoolRule() if is_bool else own

    @property
    def may_be_shape(self) -> bool:
        """Whether the shape is enough for some calls."""
        return self.is_withheld or self.read_if is not None

    @property
    def is_withheld(self) -> bool:
        """Whether the shape is enough for some calls with any attributes."""
        return self.unread_on is not None or bool(self.of_outputs)

    def matters(self, arguments: Arguments) -> bool:
        """Returns whether a wanted output depends on the input."""
        is_read = self.read_if is None or self.read_if(arguments)
        return is_read and (not self.of_outputs or any(map(arguments.wants, self.of_outputs)))

    def takes_shape(self, product: Product, shape_only: bool | None) -> bool:
        """Returns whether a server accepts the shape without the values of a needed input.

        `shape_only` decides for all inputs that an operator does not read; None leaves it to the product.
        """
        if self.unread_on is None:
            return False
        return product in self.unread_on if shape_only is None else shape_only

    def is_unread(self, arguments: Arguments, product: Product) -> bool:
        """Returns whether the product's devices are known not to read the values in this call."""
        if not self.matters(arguments):
            return True
        return self.unread_on is not None and product in self.unread_on and not self.read_for(arguments)
