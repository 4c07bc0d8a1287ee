"""What a run needs: the steps behind its outputs, and the placeholders behind those."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.requirements import Withheld, unsent
from aclgrad._client.programs.steps import Step, StepInput

Returned = Mapping[int, tuple[str, ...]]
"""The names of the outputs that are sent back, by step."""


def needs_of(step: Step, withheld: Withheld) -> Sequence[StepInput]:
    """Returns the inputs of a step whose values are sent, or made by an earlier step."""
    shapes = unsent(withheld, step.operator, step.wanted)
    return [each for each in step.inputs if each.name not in shapes] if shapes else step.inputs


def closure(steps: Sequence[Step], wanted: Iterable[int], withheld: Withheld) -> list[int]:
    """Returns the steps that the wanted ones need, with these, in order."""
    found = set(wanted)
    left = list(found)
    while left:
        for each in needs_of(steps[left.pop()], withheld):
            if each.step is not None and each.step not in found:
                found.add(each.step)
                left.append(each.step)
    return sorted(found)


class Needs(NamedTuple):
    """What these outputs of a program need; later runs for the same outputs need the same."""

    withheld: Withheld
    steps: Sequence[int]
    """Their positions, ascending."""
    placeholders: frozenset[Placeholder]
    """Also those of which a server may need only the shape: it may ask for their values while the program runs."""

    @classmethod
    def of(cls, steps: Sequence[Step], returned: Returned, withheld: Withheld) -> "Needs":
        """Takes what this client withholds at the moment."""
        inputs = (each.entry for position in closure(steps, returned, {}) for each in steps[position].inputs)
        placeholders = frozenset(each for each in inputs if isinstance(each, Placeholder))
        return cls(dict(withheld), closure(steps, returned, withheld), placeholders)
