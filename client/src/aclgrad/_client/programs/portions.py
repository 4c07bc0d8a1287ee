"""The steps of a program that go in one message: what they refer to there, and the bytes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Final

from aclgrad._client.calls.arguments import OUTPUTS
from aclgrad._client.calls.chunked import Announced
from aclgrad._client.calls.requirements import Withheld, unsent
from aclgrad._client.programs.steps import Step, StepInput
from aclgrad._client.programs.table import Entry
from aclgrad.sources import SHAPE_ONLY, OutputOf, SharedRange, Source, TableEntry, in_message
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import encode_header
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES, MANY_INPUTS
from aclgrad.wire.messages import request_pieces
from aclgrad.wire.programs import program_pieces

Returned = Mapping[int, tuple[str, ...]]
"""The names of the outputs that are sent back, by step."""

STATUS_BYTES: Final = 1024
"""A step that fails takes about so much of a reply."""
_INLINE_BYTES: Final = 64 * 2**10
"""A tensor of no more bytes goes with the header of a program in chunks, as long as the header stays small."""


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


class Portion:
    """Some steps of a program, numbered anew, and the arrays that they need.

    An array that one step uses goes with it, others stand in the table. Nothing changes any more: a portion may be sent
    again, and in any form.
    """

    def __init__(
        self, steps: Sequence[Step], positions: Sequence[int], returned: Returned, withheld: Withheld, product: str = ""
    ) -> None:
        """Takes the positions of the steps, ascending, with all that they refer to."""
        self.positions = positions
        self._steps = [steps[each] for each in positions]
        self.returned = [returned.get(each, ()) for each in positions]
        """The names of the outputs that are sent back, for each step."""
        self._product = product
        self._withheld = withheld
        self._encoded: list[bytes | memoryview] | None = None
        self._header: tuple[int, bytes] | None = None
        self._numbers = {position: number for number, position in enumerate(positions)}
        self._needs = [needs_of(each, withheld) for each in self._steps]
        self._used: dict[int, set[str]] = {}
        entries: dict[int, Entry] = {}
        uses: Counter[int] = Counter()
        for needs in self._needs:
            for each in needs:
                if each.entry is not None:
                    entries[id(each.entry)] = each.entry
                    uses[id(each.entry)] += 1
                elif each.step is not None:
                    self._used.setdefault(self._numbers[each.step], set()).add(each.output)
        self.entries: Sequence[Entry] = tuple(entries.values())
        """The arrays, in order of first use."""
        self._shared = [count > 1 for count in uses.values()]
        """Which of them several inputs have."""
        self.outputs = [
            (number, output)
            for number, (step, names) in enumerate(zip(self._steps, self.returned, strict=True))
            for output in step.outputs
            if output.name in names
        ]
        """What is sent back, as far as it is known: the step's number here, with name and type."""

    def is_of(self, positions: Sequence[int], returned: Returned, withheld: Withheld) -> bool:
        """Whether it is what these arguments make of the same steps."""
        is_same = positions == self.positions and withheld == self._withheld
        return is_same and self.returned == [returned.get(each, ()) for each in positions]

    def withholds(self, position: int) -> bool:
        """Whether only the shape of an input of this step was sent, whose values are there."""
        number = self._numbers[position]
        sent = {each.name for each in self._needs[number]}
        inputs = self._steps[number].inputs
        return any(each.name not in sent and (each.entry or each.step is not None) for each in inputs)

    @cached_property
    def sent_bytes(self) -> int:
        """At most so much is sent."""
        return sum(each.data.nbytes for each in self.entries) + sum(each.rest_bytes for each in self._steps)

    @cached_property
    def received_bytes(self) -> int:
        return sum(output.type.size_bytes for _, output in self.outputs)

    def request(
        self,
        shared: Mapping[int, SharedRange] | None = None,
        memory: Mapping[tuple[int, str], SharedRange] | None = None,
    ) -> bytes:
        """Returns the message; `shared` has the ranges of entries by position, `memory` those for outputs."""
        if shared or memory:
            return b"".join(self._pieces(shared or {}, memory or {}))
        if self._encoded is None:
            self._encoded = self._pieces({}, {})
        return b"".join(self._encoded)

    def header(self, chunk_bytes: int) -> tuple[Callable[[], bytes], list[Announced]]:
        """Returns what makes the first message of the program in chunks, and the tensors that follow it."""
        large = self._large(chunk_bytes)
        table = [index for index, is_shared in enumerate(self._shared) if index in large or is_shared]
        announced = [Announced(i, self.entries[index].data) for i, index in enumerate(table) if index in large]
        return partial(self._header_of, chunk_bytes, large), announced

    def _header_of(self, chunk_bytes: int, large: Collection[int]) -> bytes:
        header = self._header
        if header is None or header[0] != chunk_bytes:
            pieces = self._pieces(dict.fromkeys(large, SHAPE_ONLY), {})
            # Another thread may need another one meanwhile.
            header = self._header = chunk_bytes, encode_header(b"".join(pieces), chunk_bytes)
        return header[1]

    def _large(self, chunk_bytes: int) -> set[int]:
        """Returns the positions of the entries that do not go with the header."""
        left = min(chunk_bytes, DEFAULT_CHUNK_BYTES)
        found = set()
        for index in sorted(range(len(self.entries)), key=lambda each: self.entries[each].data.nbytes):
            left -= self.entries[index].data.nbytes
            if self.entries[index].data.nbytes > min(_INLINE_BYTES, chunk_bytes // MANY_INPUTS) or left < 0:
                found.add(index)
        return found

    def _pieces(
        self, sources: Mapping[int, Source], memory: Mapping[tuple[int, str], SharedRange]
    ) -> list[bytes | memoryview]:
        """Returns the pieces of an ExecuteProgramRequest, with other sources for some entries."""
        table: list[TensorView] = []
        given: dict[int, Source] = {}
        for index, entry in enumerate(self.entries):
            source = sources.get(index) or in_message(entry.data)
            if self._shared[index] or source is SHAPE_ONLY:
                given[id(entry)] = TableEntry(len(table), 0)
                table.append(TensorView("", entry.type, source))
            else:
                given[id(entry)] = source
        places: dict[int, dict[str, SharedRange]] = {}
        for (number, name), place in memory.items():
            places.setdefault(number, {})[name] = place
        steps = [self._step(number, given, places.get(number, {})) for number in range(len(self._steps))]
        return program_pieces(steps, table, self._wanted_back(), self._product)

    def _step(
        self, number: int, given: Mapping[int, Source], memory: Mapping[str, SharedRange]
    ) -> list[bytes | memoryview]:
        step = self._steps[number]
        shapes = unsent(self._withheld, step.operator, step.wanted)
        inputs = [
            TensorView(each.name, each.type)
            if each.name in shapes
            else TensorView(each.name, each.type, self._source(each, given), each.view)
            for each in step.inputs
        ]
        return request_pieces(step.form.head, inputs, self._computed(number), memory)

    def _source(self, input: StepInput, given: Mapping[int, Source]) -> Source:
        if input.entry is not None:
            return given[id(input.entry)]
        return SHAPE_ONLY if input.step is None else OutputOf(self._numbers[input.step], input.output, 0)

    def _computed(self, number: int) -> tuple[str, ...]:
        """Returns the outputs that a step has to compute; none for all of them."""
        step = self._steps[number]
        names = OUTPUTS.get(step.operator, ())
        if len(names) < 2:
            return step.wanted
        used = self._used.get(number, set()).union(self.returned[number])
        computed = tuple(each for each in names if each in used)
        return () if computed == names else computed

    def _wanted_back(self) -> list[OutputOf]:
        """Returns the outputs to send back; none for all that are computed."""
        if all(self._used.get(number, set()) <= set(names) for number, names in enumerate(self.returned)):
            return []
        return [OutputOf(number, name, 0) for number, names in enumerate(self.returned) for name in names]


Portions = dict[tuple[int, ...], Portion]
"""By the steps that they are for."""
