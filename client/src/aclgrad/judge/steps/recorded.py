"""The values that steps of a program read and make: which are needed to judge a step, and its inputs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aclgrad._client.calls.arguments import RETURNED
from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.programs.needs import closure
from aclgrad._client.programs.program import BaseProgram
from aclgrad._client.programs.steps import Step, StepInput
from aclgrad.errors import AclgradError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import definition_of
from aclgrad.tensors import TensorType, laid_over

Array = np.ndarray[Any, Any]
Output = tuple[int, str]
"""The number of a step in its program, and the name of its output."""
Results = Mapping[Output, Array | AclgradError]
"""The values of a returned output, or its step's error."""


class Needed:
    """The steps of a program that its wanted outputs need, and their used outputs.

    Unused outputs are omitted, as in the training step.
    """

    def __init__(self, program: BaseProgram[Any], wanted: Sequence[Handle]) -> None:
        self.program = program
        self.steps: Sequence[Step] = program.steps
        self.numbers: Sequence[int] = closure(self.steps, [each.step for each in wanted], {})
        """Positions of the needed steps, ascending."""
        used = {(each.step, each.output) for each in wanted}
        used |= {made for at in self.numbers for made in self._made(at)}
        self._types: Mapping[int, Mapping[str, TensorType]] = {
            at: {each.name: each.type for each in self.steps[at].outputs if (at, each.name) in used}
            for at in self.numbers
        }

    def outputs_of(self, number: int) -> list[str]:
        """Returns the names of a step's used outputs."""
        return list(self._types[number])

    def type_of(self, output: Output) -> TensorType:
        """Returns the type of a used output."""
        return self._types[output[0]][output[1]]

    def comes_back(self, output: Output) -> bool:
        """Returns whether a run may return an output; others have a device-specific form."""
        return output[1] in RETURNED[self.steps[output[0]].operator]

    def returned_for(self, numbers: Sequence[int]) -> list[Handle]:
        """Returns the handles needed to judge these steps: their outputs, and the values that they read."""
        outputs = {each: None for at in numbers for each in self._judged_by(at)}
        return [Handle(self.program, *each, self.type_of(each)) for each in outputs]

    def inside_of(self, number: int) -> list[Output]:
        """Returns the inputs of a step that stay on the device."""
        return [each for each in self._made(number) if not self.comes_back(each)]

    def _made(self, number: int) -> Iterator[Output]:
        yield from ((each.step, each.output) for each in self.steps[number].inputs if each.step is not None)

    def _judged_by(self, number: int) -> Iterator[Output]:
        yield from ((number, name) for name in self.outputs_of(number) if self.comes_back((number, name)))
        yield from self._read(number)

    def _read(self, number: int) -> Iterator[Output]:
        for each in self._made(number):
            if self.comes_back(each):
                yield each
            else:
                yield from self._read(each[0])


@dataclass(frozen=True, slots=True)
class Recorded:
    """The values of a run: the arrays of placeholders, and the returned outputs."""

    needed: Needed
    given: Mapping[Handle, Array]
    results: Results

    def results_of(self, number: int) -> dict[str, Array]:
        """Returns the returned outputs of a step by name; raises the error of a failed step."""
        names = self.needed.outputs_of(number)
        return {name: self._result((number, name)) for name in names if self.needed.comes_back((number, name))}

    def _result(self, output: Output) -> Array:
        result = self.results[output]
        if isinstance(result, AclgradError):
            raise result
        return result

    def inputs_of(self, number: int) -> dict[str, Array]:
        """Returns the inputs of a step by name, with their values in the run.

        A shape without values is zeros, because no operator reads it. A value that stayed on the device is computed by
        the definition of its step from that step's inputs.
        """
        arrays = {handle.placeholder: array for handle, array in self.given.items() if handle.placeholder}
        return {each.name: self._value(each, arrays) for each in self.needed.steps[number].inputs}

    def _value(self, input: StepInput, arrays: Mapping[Placeholder, Array]) -> Array:
        type = input.type
        if isinstance(input.entry, Placeholder):
            whole = arrays[input.entry]
        elif input.entry is not None:
            whole = np.frombuffer(input.entry.data, type.dtype.numpy)
        elif input.step is None:
            return np.broadcast_to(np.zeros((), type.dtype.numpy), type.shape)
        elif self.needed.comes_back((input.step, input.output)):
            whole = self._result((input.step, input.output))
        else:
            whole = self._inside((input.step, input.output))
        if input.view is None:
            return whole.reshape(type.shape)
        return laid_over(np.ravel(whole), input.view, type.shape)

    def _inside(self, output: Output) -> Array:
        step = self.needed.steps[output[0]]
        inside = definition_of(step.operator).inside
        assert inside is not None
        inputs = self.inputs_of(output[0])
        complete = {each.python_name: inputs.get(each.name) for each in OPERATORS[step.operator].inputs_of(inputs)}
        with np.errstate(all="ignore"):
            made = np.asarray(inside(**complete, **attributes_of(step)))
            return made.astype(self.needed.type_of(output).dtype.numpy)


def attributes_of(step: Step) -> dict[str, Any]:
    """Returns all attributes of a step."""
    return {**OPERATORS[step.operator].defaults, **step.attributes}
