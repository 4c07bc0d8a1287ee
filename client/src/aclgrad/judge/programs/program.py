"""A program: steps whose inputs are arrays, tensors of a table, or views of earlier steps' outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aclgrad.errors import AclgradError
from aclgrad.operators.attributes import AttributeLike, plain_attributes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, OperatorSpec
from aclgrad.products import Work
from aclgrad.tensors import TensorType, View, laid_over, type_of_array
from aclgrad.tolerances import arguments_of
from aclgrad.wire.values import AttributeValue

Array = np.ndarray[Any, Any]
Value = Array | tuple[int, ...]
"""An input: an array, or a shape without values."""
Result = Mapping[str, Array] | AclgradError
"""The returned outputs of a step, or its error."""
Returned = tuple[int, str]
"""The number of a step, and the name of its output."""


@dataclass(slots=True)
class Given:
    """An input of a step: its type, and an array, an output of an earlier step, or a tensor of the table.

    One with none of them is a shape without values. A view is of the elements of the others.
    """

    name: str
    type: TensorType
    array: Array | None = None
    step: int | None = None
    output: str = ""
    entry: int | None = None
    view: View | None = None


@dataclass(slots=True)
class Step:
    """One step; `outputs` names the wanted ones, none for all."""

    operator: str
    inputs: list[Given]
    attributes: dict[str, AttributeValue]
    outputs: tuple[str, ...]
    types: dict[str, TensorType]
    """Types of the wanted outputs."""
    name: str = ""
    """A name for people; may be empty."""


@dataclass(slots=True)
class Program:
    """Steps, and a table whose tensors are all used."""

    steps: list[Step] = field(default_factory=list)
    table: list[Array] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The beginning of a line about the program."""
        return self.steps[0].operator if len(self.steps) == 1 else f"program of {len(self.steps)} steps"

    @property
    def outputs(self) -> list[Returned]:
        """All outputs of all steps."""
        return [(number, name) for number, step in enumerate(self.steps) for name in step.types]

    def for_outputs(self, returned: Sequence[Returned]) -> "tuple[Program, list[Returned]]":
        """Returns the program of the steps that these outputs need, and the same outputs in it."""
        needed = {number for number, _ in returned}
        for number in reversed(range(len(self.steps))):
            if number in needed:
                needed.update(each.step for each in self.steps[number].inputs if each.step is not None)
        numbers = {number: place for place, number in enumerate(sorted(needed))}
        steps = [
            replace(step, inputs=[replace(each, step=numbers.get(each.step)) for each in step.inputs])  # type: ignore[arg-type]
            for number, step in enumerate(self.steps)
            if number in needed
        ]
        return replace(self, steps=steps), [(numbers[number], output) for number, output in returned]

    def label(self, returned: Returned) -> str:
        """Returns the label of a step's output or input: "g.grad_input", or "3.grad_input" if the step has no name.

        A program's only step needs no name.
        """
        number, output = returned
        step = self.steps[number].name or ("" if len(self.steps) == 1 else str(number))
        return f"{step}.{output}" if step else output

    def whole_type(self, given: Given) -> TensorType:
        """Returns the type of the tensor under an input with values."""
        if given.step is not None:
            return self.steps[given.step].types[given.output]
        array = given.array if given.entry is None else self.table[given.entry]
        assert array is not None
        return type_of_array(given.name, array)

    def whole_of(self, given: Given, results: Sequence[Result]) -> Array | None:
        """Returns the array under an input, given the results of the earlier steps; None if it has no values."""
        if given.step is None:
            return given.array if given.entry is None else self.table[given.entry]
        result = results[given.step]
        assert not isinstance(result, AclgradError)
        return result[given.output]

    def value_of(self, given: Given, results: Sequence[Result]) -> Value:
        """Returns the values of an input, given the results of the earlier steps, or its shape if it has none."""
        whole = self.whole_of(given, results)
        if whole is None:
            return given.type.shape
        return whole if given.view is None else laid_over(np.ravel(whole), given.view, given.type.shape)

    def values_of(self, step: Step, results: Sequence[Result]) -> dict[str, Value]:
        """Returns the values of a step's inputs by name, given the results of the earlier steps."""
        return {each.name: self.value_of(each, results) for each in step.inputs}


def one_step(
    spec: OperatorSpec,
    inputs: Mapping[str, Value],
    attributes: Mapping[str, AttributeLike],
    outputs: Sequence[str] = (),
) -> Program:
    """Returns the program of one call. An input that is a shape has no values."""
    plain = plain_attributes({each.name: each for each in spec.attributes}, attributes)
    arguments = arguments_of(spec, inputs, plain)
    given = [Given(name, arguments.inputs[name], _array(each)) for name, each in inputs.items()]
    types = {each.name: each.infer(arguments) for each in spec.returned if not outputs or each.name in outputs}
    return Program([Step(spec.name, given, plain, tuple(outputs), types)])


def work_of(step: Step) -> Work:
    """Returns the work of a step."""
    spec = OPERATORS[step.operator]
    types = {each.name: each.type for each in step.inputs}
    return spec.work(Arguments(types, {**spec.defaults, **step.attributes}))


def alone(program: Program, results: Sequence[Result]) -> Program:
    """Returns the steps that succeeded, unconnected, with the values of all inputs.

    Views remain, because sums may be in memory order.
    """
    steps = []
    for step, result in zip(program.steps, results, strict=True):
        if not isinstance(result, AclgradError):
            inputs = [
                Given(each.name, each.type, program.whole_of(each, results), view=each.view) for each in step.inputs
            ]
            steps.append(replace(step, inputs=inputs))
    return Program(steps)


def _array(value: Value) -> Array | None:
    return value if isinstance(value, np.ndarray) else None
