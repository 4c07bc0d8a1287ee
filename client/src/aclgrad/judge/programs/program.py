"""A program: steps whose inputs are arrays, tensors of a table, or views of earlier steps' outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from aclgrad.errors import AclgradError
from aclgrad.tensors import TensorType, View
from aclgrad.wire.values import AttributeValue

Array = np.ndarray[Any, Any]
Result = Mapping[str, Array] | AclgradError
"""The outputs of a step that came back, or why it failed."""
Returned = tuple[int, str]
"""The number of a step, and the name of its output."""


@dataclass(slots=True)
class Given:
    """An input of a step: its type, and an array, an output of an earlier step, or a tensor of the table."""

    name: str
    type: TensorType
    array: Array | None = None
    step: int | None = None
    output: str = ""
    entry: int | None = None
    view: View | None = None


@dataclass(slots=True)
class Step:
    """One step; `outputs` are those that it wants, none for all."""

    operator: str
    inputs: list[Given]
    attributes: dict[str, AttributeValue]
    outputs: tuple[str, ...]
    types: dict[str, TensorType]
    """Of the outputs that are wanted."""


@dataclass(slots=True)
class Program:
    """Steps, and a table whose tensors all are used."""

    steps: list[Step] = field(default_factory=list)
    table: list[Array] = field(default_factory=list)

    def array_of(self, given: Given, results: Sequence[Result]) -> Array:
        """Returns the values of an input, given the results of the earlier steps."""
        if given.array is not None:
            whole = given.array
        elif given.entry is not None:
            whole = self.table[given.entry]
        else:
            assert given.step is not None
            result = results[given.step]
            assert not isinstance(result, AclgradError)
            whole = result[given.output]
        return whole if given.view is None else lay_over(whole, given.view, given.type.shape)

    def arrays_of(self, step: Step, results: Sequence[Result]) -> dict[str, Array]:
        """Returns the values of a step's inputs by name, given the results of the earlier steps."""
        return {each.name: self.array_of(each, results) for each in step.inputs}


def lay_over(whole: Array, view: View, shape: tuple[int, ...]) -> Array:
    """Returns the view of an array's elements, in the array's memory if that is row-major."""
    if 0 in shape:
        return np.zeros(shape, whole.dtype)
    flat = np.ascontiguousarray(whole).reshape(-1)
    # An axis of one element may have any stride, also one that no array can have.
    steps = zip(shape, view.strides_of(shape), strict=True)
    strides = [stride * whole.itemsize if size > 1 else 0 for size, stride in steps]
    return as_strided(flat[view.offset :], shape, strides, writeable=False)


def alone(program: Program, results: Sequence[Result]) -> Program:
    """Returns the steps that succeeded with the values of all inputs, so that nothing connects them."""
    steps = []
    for step, result in zip(program.steps, results, strict=True):
        if not isinstance(result, AclgradError):
            inputs = [Given(each.name, each.type, program.array_of(each, results)) for each in step.inputs]
            steps.append(replace(step, inputs=inputs))
    return Program(steps)
