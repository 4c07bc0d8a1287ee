"""The rows of the operator table. Validation, client methods, ListOperators and the tests derive from them."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.attribute_spec import AttributeKind as AttributeKind
from aclgrad.operators.attribute_spec import AttributeSpec as AttributeSpec
from aclgrad.operators.attribute_spec import counts as counts
from aclgrad.operators.batch_axes import BatchAxes, along_the_first
from aclgrad.operators.input_spec import MAX_TENSORS as MAX_TENSORS
from aclgrad.operators.input_spec import Constant as Constant
from aclgrad.operators.input_spec import InputSpec as InputSpec
from aclgrad.operators.routes import Route
from aclgrad.operators.values import ValueRule
from aclgrad.products import Product, Work
from aclgrad.tensors import DTYPES, TensorType, View
from aclgrad.wire.values import AttributeValue

INPUT_SHAPES: Final = ("input_size", "input_shape")
"""Names of attributes that are the shape of the forward pass's input, and so of the output here."""


class OperatorKind(Enum):
    """What an operator returns, by the names of `aclgrad.v1.OperatorKind`: gradients, or values of a forward function.

    The value is the name of the function in `definition.py` that computes it.
    """

    GRADIENT = "backward"
    VALUE = "value"


@dataclass(frozen=True, slots=True)
class Arguments:
    """The inputs and attributes of one call, of the right dtypes, ranks and kinds, by name.

    All attributes are present, omitted ones as None; omitted inputs are not. `outputs` has the names of the wanted
    outputs, none for all.
    """

    inputs: Mapping[str, TensorType]
    attributes: Mapping[str, AttributeValue | None]
    outputs: tuple[str, ...] = ()

    def wants(self, output: str) -> bool:
        """Returns whether the output is wanted."""
        return not self.outputs or output in self.outputs

    def ints(self, name: str) -> tuple[int, ...]:
        """Returns an attribute that is a list of integers; raises TypeError for another kind."""
        value = self.attributes[name]
        if not isinstance(value, tuple):
            raise TypeError(f"{name} is {value!r}")
        return value

    def double(self, name: str) -> float:
        """Returns an attribute that is a number; raises TypeError for another kind."""
        value = self.attributes[name]
        if not isinstance(value, float):
            raise TypeError(f"{name} is {value!r}")
        return value

    def int(self, name: str) -> int:
        """Returns an attribute that is an integer; raises TypeError for another kind."""
        value = self.attributes[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is {value!r}")
        return value

    def scalar(self, name: str) -> float:
        """Returns an attribute that is a number, an integer or a bool; raises TypeError for another kind."""
        value = self.attributes[name]
        if not isinstance(value, (float, int)):
            raise TypeError(f"{name} is {value!r}")
        return value

    def tensors(self, name: str) -> list[TensorType]:
        """Returns the types of a list of tensors."""
        return [self.inputs[f"{name}_{place}"] for place in range(len(self.inputs)) if f"{name}_{place}" in self.inputs]


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One output: `infer` gives its type and shape for legal arguments, `rule` says the same in words.

    A gradient is the gradient of the input `of`, which the operator itself need not take; for a value, `of` has no
    meaning. For an unwanted nullable output, the operator gets null; others are always written. An operator that would
    write its input `begins_as` gets the output's memory instead, in the form of `view`, which begins as a copy of the
    input. An output that `stays_inside` has a product-specific form: only later steps of a program use it, and the
    definition does not return it. `always_written` names the source that shows that every device writes all of it or
    fails; without one, the server clears the memory before each call, so that no data of another call remains.
    `guarantees` returns the rule that all its values follow, whatever the inputs' values are: only then may an input
    with a rule refer to it.
    """

    name: str
    rule: str
    infer: Callable[[Arguments], TensorType]
    of: str = "self"
    is_nullable: bool = False
    always_written: str = ""
    guarantees: Callable[[Arguments, Product], ValueRule] | None = None
    begins_as: str = ""
    view: Callable[[Arguments], tuple[tuple[int, ...], View]] | None = None
    stays_inside: bool = False


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a result may be from the float64 definition: `|result - truth| <= absolute + relative * |truth|`.

    `of_elements` is a further part, for all elements or each, for cancelling terms on the call's `route`, if any.
    `absolute` is for sums as long as the call's, and `share` is the same for results of size 1, equal by default.
    `outputs` has the outputs with another tolerance.
    """

    relative: float
    absolute: float
    share: float | None = None
    of_elements: "float | np.ndarray[Any, Any]" = field(default=0.0, compare=False)
    route: Route | None = None
    outputs: "Mapping[str, Tolerance]" = field(default_factory=dict, hash=False)

    def of(self, output: str) -> "Tolerance":
        """Returns the tolerance of one output, by its name."""
        return self.outputs.get(output, self)

    @property
    def of_largest(self) -> float:
        """The absolute part of results of any size, as a share of the largest."""
        return (self.absolute if self.share is None else self.share) + float(np.max(self.of_elements, initial=0.0))

    def limit(self, truth: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
        """Returns the largest allowed error of each element."""
        return self.absolute + self.relative * np.abs(truth) + self.of_elements  # type: ignore[no-any-return]


_NULL: Final = InputSpec("", "Null in every call.", {}, (), is_optional=True)


def list_of(name: str) -> str:
    """Returns the name of the list to which an input of this name belongs, if any."""
    return re.sub(r"_(0|[1-9][0-9]*)$", "", name)


def _cells(arguments: Arguments) -> float:
    return sum(each.element_count for each in arguments.inputs.values())


@dataclass(frozen=True, slots=True)
class OperatorSpec:
    """One operator.

    The default `kind` is gradients. `leading` names the input whose dtype and layout a call has, by default the first.
    `check` yields the problems that the table cannot express: inputs and attributes that do not fit each other, and
    calls that a product cannot compute or would compute wrongly. `tolerance` returns the allowed distance of the
    product's results from the definition in a legal call of the dtype, by the rules of `tolerance.py`. `operations`
    estimates the floating-point operations of a legal call, and is infinite if they depend on values; the default is
    one for each element of the inputs. `matrix_operations` are the further operations of matrix products. With an empty
    input, an operator does not run and its outputs are zeros, unless it `runs_on_nothing`. The tensors of a spatial
    operator have a batch, channels and spatial axes, and their format says so to a device. If an operator is planned
    alone, phase 1 keeps state of the call for the whole process, so a process runs one at a time. `batch_axes` returns
    the axes along which calls of this form join into one, None if they do not. `joins` says whether the output is the
    concatenation of the inputs, which needs no work if they are adjacent. `null_inputs` and `null_outputs` are the
    positions of inputs and outputs that are null in every call. `passes` returns the operator's attributes in its
    order, if they are not the call's. `refused` has names that callers may look for, and why they are not served.
    """

    name: str
    symbol: str
    summary: str
    formula: str
    inputs: tuple[InputSpec, ...]
    attributes: tuple[AttributeSpec, ...]
    outputs: tuple[OutputSpec, ...]
    check: Callable[[Arguments, Product], Iterator[Violation]]
    tolerance: Callable[[Arguments, Product, str], Tolerance]
    kind: OperatorKind = OperatorKind.GRADIENT
    leading: str = ""
    operations: Callable[[Arguments], float] = _cells
    matrix_operations: Callable[[Arguments], float] = lambda _: 0.0
    runs_on_nothing: Callable[[Arguments], bool] = lambda _: False
    is_spatial: bool = True
    is_planned_alone: bool = False
    batch_axes: Callable[[Arguments], BatchAxes | None] = along_the_first
    joins: Callable[[Arguments], bool] = lambda _: False
    null_inputs: tuple[int, ...] = ()
    null_outputs: tuple[int, ...] = ()
    passes: Callable[[Arguments, Product], Sequence[AttributeValue | None]] | None = None
    refused: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Raises ValueError if the parts do not fit together, so that no other code has to check."""
        object.__setattr__(self, "leading", self.leading or self.inputs_of(())[0].name)
        for problem in self._problems():
            raise ValueError(f"operator {self.name}: {problem}")

    def _problems(self) -> Iterator[str]:
        names = [each.python_name for each in self.inputs] + [each.name for each in self.attributes]
        yield from (f"{name} is the name of two inputs or attributes" for name in names if names.count(name) > 1)
        outputs = [each.name for each in self.outputs]
        yield from (f"{name} is the name of two outputs" for name in outputs if outputs.count(name) > 1)
        if self.leading not in [each.name for each in self.inputs_of(()) if not each.is_optional]:
            yield f"the leading input {self.leading} is missing or optional, and the others follow its dtype"
        for input in self.inputs:
            for product, dtypes in input.dtypes.items():
                if not isinstance(product, Product):
                    known = ", ".join(Product)
                    yield f"input {input.name} is for the unknown product {product!r}; the products are {known}"
                yield from (f"input {input.name} has the unknown dtype {each}" for each in dtypes if each not in DTYPES)
        for attribute in self.attributes:
            if attribute.default is not None:
                yield from (f"the default of {each}" for each in attribute.check(attribute.default))

    def inputs_of(self, given: Collection[str]) -> tuple[InputSpec, ...]:
        """Returns the input specs of a call with these inputs: as many of a list as there are, and at least one."""
        if not any(each.is_list for each in self.inputs):
            return self.inputs
        found: list[InputSpec] = []
        for each in self.inputs:
            count = sum(list_of(name) == each.name for name in given) if each.is_list else 0
            names = [f"{each.name}_{place}" for place in range(max(count, 1))] if each.is_list else [each.name]
            found += [replace(each, name=name) for name in names]
        return tuple(found)

    def taken_of(self, given: Collection[str]) -> tuple[InputSpec, ...]:
        """Returns the inputs of such a call in the operator's order, including null ones."""
        found = list(self.inputs_of(given))
        for place in self.null_inputs:
            found.insert(place, _NULL)
        return tuple(found)

    @property
    def returned(self) -> tuple[OutputSpec, ...]:
        """The outputs that a caller can get."""
        return tuple(each for each in self.outputs if not each.stays_inside)

    def input(self, name: str) -> InputSpec:
        """Returns the input of this wire name, also one of a list; raises LookupError if there is none."""
        named = {each.name: each for each in self.inputs}
        return named[name] if name in named else replace(named[list_of(name)], name=name)

    @property
    def products(self) -> frozenset[Product]:
        """The products that have the operator."""
        return frozenset.intersection(*(frozenset(spec.dtypes) for spec in self.inputs))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes that the operator has on any product."""
        return tuple(dict.fromkeys(dtype for dtypes in self.leading_input.dtypes.values() for dtype in dtypes))

    @property
    def leading_input(self) -> InputSpec:
        """The input whose dtype and layout a call has."""
        return next(each for each in self.inputs if each.name in (self.leading, list_of(self.leading)))

    def dtypes_on(self, product: Product) -> tuple[str, ...]:
        """Returns the dtypes of the leading input on a product, none if the product lacks the operator."""
        return tuple(self.leading_input.dtypes.get(product, ()))

    @property
    def defaults(self) -> dict[str, AttributeValue | None]:
        """The attributes that a caller may omit, with their defaults, None for optional ones."""
        return {each.name: each.default for each in self.attributes if not each.is_required}

    def is_skipped(self, arguments: Arguments) -> bool:
        """Returns whether the outputs are zeros without running the operator."""
        is_nothing = any(each.element_count == 0 for each in arguments.inputs.values())
        return is_nothing and not self.runs_on_nothing(arguments)

    def work(self, arguments: Arguments) -> Work:
        """Returns the work of a legal call, which reads all inputs and writes all outputs once."""
        moved = [*arguments.inputs.values(), *(each.infer(arguments) for each in self.outputs)]
        nbytes = float(sum(each.size_bytes for each in moved))
        return Work(self.operations(arguments), nbytes, self.matrix_operations(arguments))


def same_on(products: tuple[Product, ...], dtypes: tuple[str, ...]) -> dict[Product, tuple[str, ...]]:
    """Returns the dtype table of an input that takes the same dtypes on these products."""
    return dict.fromkeys(products, dtypes)


def operator_table(*specs: OperatorSpec) -> Mapping[str, OperatorSpec]:
    """Returns the operators by wire name, sorted; raises ValueError if two have the same name or symbol."""
    for key in ("name", "symbol"):
        values = [getattr(spec, key) for spec in specs]
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"two operators have the {key} {value}; change one of them in its spec.py")
    return MappingProxyType({spec.name: spec for spec in sorted(specs, key=lambda each: each.name)})
