"""What a program costs, as far as it is known before it runs: bytes, memory, work, and where to cut it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from aclgrad._client.programs.portions import Returned, closure, needs_of
from aclgrad._client.programs.steps import Step, StepInput
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.units import size

_MOST_LINES: Final = 60
"""Of a listing; the middle of a longer program is left out."""


@dataclass(slots=True)
class _Tensor:
    """A tensor on the device: its bytes, the first and last step that have it, and what sending it takes."""

    size_bytes: int
    first: int
    last: int
    is_made: bool
    is_returned: bool = False

    @property
    def bytes_of_cut(self) -> int:
        """What more goes over the connection if the program is cut between its first and its last step."""
        return self.size_bytes * (2 if self.is_made and not self.is_returned else 1)


class Costs:
    """The costs of the steps that the wanted outputs need; by default those that no step uses are wanted.

    Memory is that of tensors by their last use: what operators take beside it only the server knows.
    """

    def __init__(self, steps: Sequence[Step], returned: Returned | None = None) -> None:
        self._steps = steps
        returned = unused_outputs(steps) if returned is None else returned
        self._positions = closure(steps, returned, {})
        self._tensors = list(_tensors(steps, self._positions, returned))
        last = len(self._positions) - 1
        changes = [0] * (last + 2)
        for each in self._tensors:
            changes[each.first] += each.size_bytes
            changes[(last if each.is_returned else each.last) + 1] -= each.size_bytes
        self._live = list(accumulate(changes))[: last + 1]
        self.sent_bytes = sum(each.size_bytes for each in self._tensors if not each.is_made)
        self.received_bytes = sum(each.size_bytes for each in self._tensors if each.is_returned)
        self.peak_bytes = max(self._live, default=0)

    @property
    def operations(self) -> float:
        """The floating-point operations of all steps, but for those whose work depends on values."""
        found = (_operations(self._steps[each]) for each in self._positions)
        return sum(each for each in found if math.isfinite(each))

    def cheapest_cut(self, limit_bytes: int, peak_bytes: int) -> str:
        """Returns where to cut the program, whose peak was `peak_bytes`, so that its parts take at most the limit.

        It is the place where the fewest bytes cross; if there is no such place, the one that helps most. Returns no
        text for a program of one step.
        """
        count = len(self._positions)
        if count < 2:
            return ""
        before = list(accumulate(self._live, max))
        after = list(accumulate(reversed(self._live), max))[::-1]
        largest = {at: max(before[at - 1], after[at]) for at in range(1, count)}
        changes = [0] * (count + 1)
        for each in self._tensors:
            changes[each.first + 1] += each.bytes_of_cut
            changes[each.last + 1] -= each.bytes_of_cut
        across = list(accumulate(changes))
        fit = [at for at, most in largest.items() if most * peak_bytes <= limit_bytes * self.peak_bytes]
        at = min(fit or largest, key=lambda each: (0 if fit else largest[each], across[each]))
        position = self._positions[at]
        where = (
            f"cut it before step {position} ({self._steps[position].told}), where {size(across[at])} more would be sent"
        )
        return where if fit else f"{where}, and cut the larger part again"

    def __str__(self) -> str:
        steps, positions = self._steps, self._positions
        head = (
            f"program of {len(positions)} steps: {size(self.sent_bytes)} to the server, {size(self.received_bytes)} "
            f"back, about {size(self.peak_bytes)} on the device at once, {self.operations / 1e6:.3g} MFLOP"
        )
        if len(positions) < len(steps):
            head += f"; {len(steps) - len(positions)} more steps are not needed"
        lines = [f"{each:>5}  {_described(steps[each])}" for each in positions]
        if len(lines) > _MOST_LINES:
            left_out = len(lines) - _MOST_LINES
            lines[_MOST_LINES // 2 : -_MOST_LINES // 2] = [f"  ...  {left_out} steps"]
        return "\n".join([head, *lines])


def unused_outputs(steps: Sequence[Step]) -> dict[int, tuple[str, ...]]:
    """Returns the outputs that no step uses, by step."""
    used = {(each.step, each.output) for step in steps for each in step.inputs}
    names = (tuple(each.name for each in step.outputs if (at, each.name) not in used) for at, step in enumerate(steps))
    return {at: each for at, each in enumerate(names) if each}


def _tensors(steps: Sequence[Step], positions: Sequence[int], returned: Returned) -> Iterator[_Tensor]:
    """Yields the tensors that the steps send and make; the numbers of steps count the positions."""
    sent: dict[int, _Tensor] = {}
    made: dict[tuple[int, str], _Tensor] = {}
    for number, position in enumerate(positions):
        step = steps[position]
        for each in needs_of(step, {}):
            if each.step is not None:
                made[each.step, each.output].last = number
            elif each.entry is not None:
                tensor = _Tensor(each.entry.data.nbytes, number, number, is_made=False)
                sent.setdefault(id(each.entry), tensor).last = number
        for output in step.outputs:
            is_returned = output.name in returned.get(position, ())
            tensor = _Tensor(output.type.size_bytes, number, number, is_made=True, is_returned=is_returned)
            made[position, output.name] = tensor
    yield from sent.values()
    yield from made.values()


def _operations(step: Step) -> float:
    spec = OPERATORS[step.operator]
    inputs = {each.name: each.type for each in step.inputs}
    attributes = {each.name: each.default for each in spec.attributes} | step.attributes
    return spec.work(Arguments(inputs, attributes)).operations


def _described(step: Step) -> str:
    inputs = ", ".join(f"{each.name}{_source(each)} {each.type}" for each in step.inputs)
    outputs = ", ".join(f"{each.name} {each.type}" for each in step.outputs)
    return f"{step.operator}({inputs}) -> {outputs}  {step.place}"


def _source(input: StepInput) -> str:
    if input.step is not None:
        return f" = {input.step}.{input.output}{'' if input.view is None else ' (view)'}"
    return "" if input.entry is not None else " (shape)"
