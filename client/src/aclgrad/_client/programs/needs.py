"""The needs of a run: the steps behind its outputs, and their placeholders."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.requirements import Withheld, unsent
from aclgrad._client.programs.steps import Step, StepInput

Returned = Mapping[int, tuple[str, ...]]
"""The names of the outputs that are sent back, by step."""


def needs_of(step: Step, withheld: Withheld) -> Sequence[StepInput]:
    """Returns the inputs of a step with values, sent or made by an earlier step."""
    shapes = unsent(withheld, step.operator, step.wanted)
    return [each for each in step.inputs if each.name not in shapes] if shapes else step.inputs


def closure(steps: Sequence[Step], wanted: Iterable[int], withheld: Withheld) -> list[int]:
    """Returns the wanted steps and all that they need, in order."""
    found = set(wanted)
    left = list(found)
    while left:
        for each in needs_of(steps[left.pop()], withheld):
            if each.step is not None and each.step not in found:
                found.add(each.step)
                left.append(each.step)
    return sorted(found)


class Needs(NamedTuple):
    """The needs of these outputs of a program, the same for later runs."""

    withheld: Withheld
    steps: Sequence[int]
    """Positions of the steps, ascending."""
    placeholders: frozenset[Placeholder]
    """Includes inputs sent as shapes: a server may ask for their values while the program runs."""

    @classmethod
    def of(cls, steps: Sequence[Step], returned: Returned, withheld: Withheld) -> "Needs":
        """Takes the inputs that this client currently withholds."""
        inputs = (each.entry for position in closure(steps, returned, {}) for each in steps[position].inputs)
        placeholders = frozenset(each for each in inputs if isinstance(each, Placeholder))
        return cls(dict(withheld), closure(steps, returned, withheld), placeholders)
