"""Sends programs by a client's program, and returns the results."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from aclgrad._client.calls.handles import Handle
from aclgrad._client.calls.strided import Strided
from aclgrad._client.programs.program import BaseProgram
from aclgrad._client.sync.client import Client
from aclgrad.judge.programs.program import Array, Given, Program, Returned
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS


def send(client: Client, program: Program, returned: Sequence[Returned]) -> dict[str, Array]:
    """Returns these outputs by label. A program of one step is sent as a call of its operator."""
    labels = [program.label(each) for each in returned]
    if len(program.steps) > 1:
        sent = client.program()
        return dict(zip(labels, sent.run(*add_steps(program, sent, returned)), strict=True))
    (step,) = program.steps
    inputs = {each.name: _input(program, each, {}, None) for each in step.inputs}
    found = _named(step.operator, client.execute(step.operator, inputs, step.attributes, outputs=step.outputs or None))
    return {label: found[output] for label, (_, output) in zip(labels, returned, strict=True)}


def add_steps(program: Program, to: BaseProgram[Any], returned: Sequence[Returned]) -> list[Handle]:
    """Adds all steps, with their names for errors, and returns the handles of these outputs."""
    handles: dict[Returned, Handle] = {}
    for number, step in enumerate(program.steps):
        to.place = partial(str, step.name or "no name")
        inputs = {each.name: _input(program, each, handles, to) for each in step.inputs}
        made = to.execute(step.operator, inputs, step.attributes, outputs=step.outputs or None)
        handles |= {(number, name): each for name, each in _named(step.operator, made).items() if each is not None}
    return [handles[each] for each in returned]


def _input(program: Program, given: Given, handles: dict[Returned, Handle], to: BaseProgram[Any] | None) -> Any:
    if given.step is None:
        value = program.value_of(given, ())
        # The type, because a shape would have another input's.
        return given.type if isinstance(value, tuple) else value
    whole = handles[given.step, given.output]
    if given.view is None:
        return whole
    shape = given.type.shape
    strided = Strided(shape, given.view.strides_of(shape), given.view.offset)
    return Handle(to, whole.step, whole.output, whole.type, strided)


def _named(operator: str, made: Any) -> dict[str, Any]:
    """Returns an operator's results by the names of its outputs."""
    return dict(zip((each.name for each in OPERATORS[operator].outputs), arrays_of(made), strict=True))
