"""The costs of a program before it runs: bytes, memory, work, and where to cut it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.requirements import Withheld, unsent
from aclgrad._client.programs.needs import Returned, closure, needs_of
from aclgrad._client.programs.steps import Step, StepInput
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.products import Work
from aclgrad.units import size

_AHEAD_BYTES: Final = 9 * 2**20
"""About the bytes on the server before their first use, and of results being sent: steps run in groups."""
_MOST_LINES: Final = 60
"""Lines of a listing; the middle of a longer program is left out."""


@dataclass(slots=True)
class _Tensor:
    """A tensor on the device: its bytes, and the steps that make or use it, ascending."""

    size_bytes: int
    steps: list[int]
    is_made: bool
    is_returned: bool = False

    @property
    def bytes_of_cut(self) -> int:
        """The additional transfer if the program is cut between its first and its last step."""
        return self.size_bytes * (2 if self.is_made and not self.is_returned else 1)

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Yields first step and end of each gap between steps that use it."""
        yield from ((step + 1, end) for step, end in pairwise(self.steps) if step + 1 < end)


class Costs:
    """The costs of the steps that the wanted outputs need; by default the outputs that no step uses.

    Memory is that of tensors until their last use; only the server knows operators' workspaces.
    """

    def __init__(
        self, steps: Sequence[Step], returned: Returned | None = None, withheld: Withheld | None = None
    ) -> None:
        self._steps = steps
        returned = unused_outputs(steps) if returned is None else returned
        self._withheld = withheld or {}
        self._positions = closure(steps, returned, self._withheld)
        self._tensors = list(self._found(returned))
        self._live = np.zeros(len(self._positions), np.int64)
        """The bytes on the device in each step."""
        for each in self._tensors:
            self._live[each.steps[0] : None if each.is_returned else each.steps[-1] + 1] += each.size_bytes
        self.sent_bytes = sum(each.size_bytes for each in self._tensors if not each.is_made)
        self.received_bytes = sum(each.size_bytes for each in self._tensors if each.is_returned)
        self.peak_bytes = int(self._live.max(initial=0))

    def _found(self, returned: Returned) -> Iterator[_Tensor]:
        """Yields the tensors that the steps send and make, with steps numbered by position."""
        sent: dict[int, _Tensor] = {}
        made: dict[tuple[int, str], _Tensor] = {}
        for number, position in enumerate(self._positions):
            step = self._steps[position]
            for each in needs_of(step, self._withheld):
                if each.step is not None:
                    made[each.step, each.output].steps.append(number)
                elif each.entry is not None:
                    tensor = _Tensor(each.entry.size_bytes, [], is_made=False)
                    sent.setdefault(id(each.entry), tensor).steps.append(number)
            for output in step.outputs:
                is_returned = output.name in returned.get(position, ())
                made[position, output.name] = _Tensor(output.type.size_bytes, [number], True, is_returned)
        yield from sent.values()
        yield from made.values()

    @property
    def step_count(self) -> int:
        return len(self._positions)

    @property
    def operations(self) -> float:
        """The floating-point operations of all steps whose work does not depend on values."""
        found = (_work(self._steps[each]) for each in self._positions)
        return sum(each.operations + each.matrix_operations for each in found if math.isfinite(each.operations))

    def cheapest_cut(self, limit_bytes: int, peak_bytes: int, ahead_bytes: int = _AHEAD_BYTES) -> str:
        """Returns where to cut a program with this peak, so that both parts take at most the limit.

        It is the place with the least additional transfer. If no place suffices, it is one of the last before which the
        first part fits, so that the rest needs few cuts; else the one that helps most. Returns an empty text for a
        program of one step. `ahead_bytes` is the most that a server has before its first use.
        """
        count = len(self._positions)
        if count < 2:
            return ""
        changes = [0] * (count + 1)
        for each in self._tensors:
            changes[each.steps[0] + 1] += each.bytes_of_cut
            changes[each.steps[-1] + 1] -= each.bytes_of_cut
        across = list(accumulate(changes))
        parts = self._parts(ahead_bytes)
        whole = min(self.sent_bytes + self._made_peak + self.received_bytes, self.peak_bytes + ahead_bytes)
        fit = {at: [most * peak_bytes <= limit_bytes * whole for most in both] for at, both in parts.items()}
        begins = [at for at, (is_first, _) in fit.items() if is_first]
        chosen = [at for at, both in fit.items() if all(both)]
        chosen = chosen or [at for at in begins if 2 * at > begins[-1]]
        at = min(chosen or parts, key=lambda each: (0 if chosen else max(parts[each]), across[each], -each))
        position = self._positions[at]
        label, more = self._steps[position].label, size(across[at])
        where = f"cut it before step {position} ({label}), where {more} more would be sent"
        again = "what follows" if begins else "the larger part"
        return where if all(fit[at]) else f"{where}, and cut {again} again"

    @property
    def _made_peak(self) -> int:
        """The most bytes that the steps' tensors take at once."""
        live = np.zeros(len(self._positions), np.int64)
        for each in self._tensors:
            if each.is_made:
                live[each.steps[0] : None if each.is_returned else each.steps[-1] + 1] += each.size_bytes
        return int(live.max(initial=0))

    def _parts(self, ahead_bytes: int) -> dict[int, tuple[int, int]]:
        """Returns about the bytes of the two parts, by the step before which the program is cut.

        A part takes its transfers and its tensors at once; if it is large, its peak and what a server has ahead. The
        first part keeps sent tensors until its last use of them, and the second has nothing before its first use.
        """
        first, second = self._live.copy(), self._live.copy()
        changes: dict[int, list[tuple[NDArray[np.int64], int]]] = {}
        moved, made = np.zeros((2, 2, len(self._positions) + 1), np.int64)
        for each in self._tensors:
            size_bytes = each.size_bytes
            before, behind = slice(each.steps[0] + 1, None), slice(each.steps[0] + 1)
            across = slice(each.steps[0] + 1, each.steps[-1] + 1)
            if not each.is_made:
                moved[0, before] += size_bytes
                moved[1, : each.steps[-1] + 1] += size_bytes
            else:
                made[0, before] += size_bytes
                made[1, behind] += size_bytes
                moved[0, before if each.is_returned else across] += size_bytes
                moved[1, across] += size_bytes
                moved[1, behind] += size_bytes if each.is_returned else 0
            for begin, end in each.gaps():
                changes.setdefault(begin, []).append((second[begin:end], -size_bytes))
                if not each.is_made:
                    changes[begin].append((first[begin:end], -size_bytes))
                    changes.setdefault(end + 1, []).append((first[begin:end], size_bytes))
            if each.is_returned:
                # The most that the second part is sent of the first.
                changes.setdefault(each.steps[0] + 1, []).append((second[each.steps[-1] + 1 :], -size_bytes))
        parts, made_peak = {}, self._made_peak
        for at in range(1, len(self._positions)):
            for part, size_bytes in changes.get(at, ()):
                part += size_bytes
            peaks = first[:at].max() + ahead_bytes, second[at:].max() + ahead_bytes
            whole = moved[:, at] + np.minimum(made[:, at], made_peak)
            parts[at] = min(int(peaks[0]), int(whole[0])), min(int(peaks[1]), int(whole[1]))
        return parts

    def __str__(self) -> str:
        steps, positions = self._steps, self._positions
        head = (
            f"program of {len(positions)} steps: {size(self.sent_bytes)} to the server, {size(self.received_bytes)} "
            f"back, at least {size(self.peak_bytes)} on the device at once, {self.operations / 1e6:.3g} MFLOP"
        )
        if len(positions) < len(steps):
            head += f"; {len(steps) - len(positions)} more steps are not needed"
        lines = [f"{each:>5}  {self._described(steps[each])}" for each in positions]
        if len(lines) > _MOST_LINES:
            left_out = len(lines) - _MOST_LINES
            lines[_MOST_LINES // 2 : -_MOST_LINES // 2] = [f"  ...  {left_out} steps"]
        return "\n".join([head, *lines])

    def _described(self, step: Step) -> str:
        shapes = unsent(self._withheld, step.operator, step.wanted)
        sources = [" (shape)" if each.name in shapes else _source(each) for each in step.inputs]
        inputs = ", ".join(
            f"{each.name}{source} {each.type}" for each, source in zip(step.inputs, sources, strict=True)
        )
        outputs = ", ".join(f"{each.name} {each.type}" for each in step.outputs)
        return f"{step.operator}({inputs}) -> {outputs}  {step.place}"


def unused_outputs(steps: Sequence[Step]) -> dict[int, tuple[str, ...]]:
    """Returns the outputs that no step uses, by step."""
    used = {(each.step, each.output) for step in steps for each in step.inputs}
    names = (tuple(each.name for each in step.outputs if (at, each.name) not in used) for at, step in enumerate(steps))
    return {at: each for at, each in enumerate(names) if each}


def _work(step: Step) -> Work:
    spec = OPERATORS[step.operator]
    inputs = {each.name: each.type for each in step.inputs}
    attributes = {each.name: each.default for each in spec.attributes} | step.attributes
    return spec.work(Arguments(inputs, attributes, step.wanted))


def _source(input: StepInput) -> str:
    if input.step is not None:
        return f" = {input.step}.{input.output}{'' if input.view is None else ' (view)'}"
    if isinstance(input.entry, Placeholder):
        return f" = {input.entry}{'' if input.view is None else ' (view)'}"
    return "" if input.entry is not None else " (shape)"
