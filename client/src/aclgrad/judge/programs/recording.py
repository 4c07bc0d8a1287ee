"""Records the steps that are added to a program, with their arrays, for judging."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from aclgrad import composites
from aclgrad._client.calls.arguments import Inputs
from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.requirements import MAX_MESSAGE_BYTES, Requirements
from aclgrad._client.programs.program import BaseProgram
from aclgrad._client.programs.steps import StepInput
from aclgrad._client.programs.table import Entry
from aclgrad.judge.programs.program import Array, Given, Program, Returned, Step
from aclgrad.operators.attributes import AttributeLike
from aclgrad.tensors import TensorType, laid_over


class Recorder(BaseProgram[None]):
    """Records added steps, without a server."""

    def __init__(self) -> None:
        super().__init__(Requirements(MAX_MESSAGE_BYTES, shape_only=False), None)
        self.program = Program()

    def execute(
        self, name: str, inputs: Inputs, attributes: Mapping[str, AttributeLike] | None = None, **options: Any
    ) -> Handle:
        handle = super().execute(name, inputs, attributes, **options)
        step = self._steps[-1]
        given = [
            Given(
                each.name,
                each.type,
                _array(each),
                each.step,
                each.output,
                view=each.view if each.entry is None else None,
            )
            for each in step.inputs
        ]
        types = {each.name: each.type for each in step.outputs}
        self.program.steps.append(Step(name, given, step.attributes, step.wanted, types))
        return handle

    def placeholder(self, type: TensorType) -> NoReturn:
        raise NotImplementedError("a program that is judged has the values of all its inputs")

    def run(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("only a client's program runs")


def _array(input: StepInput) -> Array | None:
    """Returns the given array with its values at that time; None for another input."""
    if not isinstance(input.entry, Entry):
        return None
    elements = np.frombuffer(input.entry.data, input.type.dtype.numpy)
    return (
        elements.reshape(input.type.shape) if input.view is None else laid_over(elements, input.view, input.type.shape)
    )


def recorded(composite: str, *arguments: Any, **options: Any) -> tuple[Program, dict[str, Returned]]:
    """Returns the program of a function of `aclgrad.composites`, and the outputs that are its gradients, by name.

    The step that makes a gradient has its name. An output has the operator's layout, not the operand's.
    """
    recorder = Recorder()
    made = getattr(composites, composite)(recorder, *arguments, **options)
    names: Sequence[str] = getattr(made, "_fields", [f"grad_{number}" for number in range(len(made))])
    handles = {name: each for name, each in zip(names, made, strict=True) if each is not None}
    for name, each in handles.items():
        recorder.program.steps[each.step].name = name
    return recorder.program, {name: (each.step, each.output) for name, each in handles.items()}
