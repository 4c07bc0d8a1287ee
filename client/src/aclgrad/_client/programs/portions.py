"""The steps of a program in one message: their references, and the bytes."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import groupby
from typing import Final, NamedTuple

from aclgrad._client.calls.arguments import OUTPUTS
from aclgrad._client.calls.chunked import Announced
from aclgrad._client.calls.destination import Destination
from aclgrad._client.calls.placeholders import Placeholder
from aclgrad._client.calls.requirements import Withheld, unsent
from aclgrad._client.programs.needs import Returned, needs_of
from aclgrad._client.programs.steps import Step, StepInput
from aclgrad._client.programs.table import Entry
from aclgrad.sources import SHAPE_ONLY, OutputOf, SharedRange, Source, TableEntry
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import header_around
from aclgrad.wire.limits import MANY_INPUTS
from aclgrad.wire.messages import request_pieces
from aclgrad.wire.programs import rest_of_program, step_fields, table_field

Data = Mapping[Placeholder, memoryview]
"""The bytes of a run's values."""
Piece = bytes | memoryview | Placeholder
"""A part of a message; a placeholder stands for the bytes of a run."""

STATUS_BYTES: Final = 1024
"""About the bytes of a failed step in a reply."""
_MOST_LENT: Final = 4
"""Cached messages with ranges of shared memory: while results are in use, the next ones have other ranges."""
_INLINE_BYTES: Final = 64 * 2**10
"""Tensors up to this size go with the header of a program in chunks, as long as the header stays small."""


class Portion:
    """Some steps of a program, renumbered, and the arrays that they need.

    An array that one step uses goes with it; placeholders, and arrays of several steps, are in the table. A portion
    never changes: several threads may send it again at once, in any form and with other bytes for its placeholders.
    """

    def __init__(
        self, steps: Sequence[Step], positions: Sequence[int], returned: Returned, withheld: Withheld, product: str = ""
    ) -> None:
        """Takes the positions of the steps, ascending, including all that they refer to."""
        self.positions = positions
        self._steps = [steps[each] for each in positions]
        self.returned = [returned.get(each, ()) for each in positions]
        """The names of the outputs that are sent back, for each step."""
        self._product = product
        self._asked = returned
        self._withheld = withheld
        self._encoded: list[Piece] | None = None
        self._header: _Header | None = None
        self._lent: tuple[_Lent, ...] = ()
        self._numbers = {position: number for number, position in enumerate(positions)}
        self._needs = [needs_of(each, withheld) for each in self._steps]
        self._used: dict[int, set[str]] = {}
        entries: dict[int, Entry | Placeholder] = {}
        uses: Counter[int] = Counter()
        for needs in self._needs:
            for each in needs:
                if each.entry is not None:
                    entries[id(each.entry)] = each.entry
                    uses[id(each.entry)] += 1
                elif each.step is not None:
                    self._used.setdefault(self._numbers[each.step], set()).add(each.output)
        self.entries: Sequence[Entry | Placeholder] = tuple(entries.values())
        """The arrays and placeholders in the order of first use."""
        # The bytes of a run are filled in only in the table.
        self._in_table = [uses[key] > 1 or isinstance(each, Placeholder) for key, each in entries.items()]
        self.outputs = [
            (number, output)
            for number, (step, names) in enumerate(zip(self._steps, self.returned, strict=True))
            for output in step.outputs
            if output.name in names
        ]
        """The returned outputs, as far as known: the step's number here, with name and type."""

    def is_of(self, returned: Returned, withheld: Withheld) -> bool:
        """Whether these arguments make the same portion of the same program."""
        return returned == self._asked and withheld == self._withheld

    @cached_property
    def destinations(self) -> Sequence[Destination]:
        """The destination of each step's outputs."""
        return [step.destination(names) for step, names in zip(self._steps, self.returned, strict=True)]

    def withholds(self, position: int) -> bool:
        """Whether values of an input of this step were withheld."""
        number = self._numbers[position]
        sent = {each.name for each in self._needs[number]}
        inputs = self._steps[number].inputs
        return any(each.name not in sent and (each.entry or each.step is not None) for each in inputs)

    @cached_property
    def sent_bytes(self) -> int:
        """The most bytes that are sent."""
        return sum(each.size_bytes for each in self.entries) + sum(each.rest_bytes for each in self._steps)

    @cached_property
    def received_bytes(self) -> int:
        return sum(output.type.size_bytes for _, output in self.outputs)

    def data(self, data: Data) -> list[memoryview]:
        """Returns the bytes of the entries, with those of a run."""
        return [data[each] if isinstance(each, Placeholder) else each.data for each in self.entries]

    def request(
        self,
        data: Data,
        shared: Mapping[int, SharedRange] | None = None,
        memory: Mapping[tuple[int, str], SharedRange] | None = None,
    ) -> bytes:
        """Returns the message; `shared` has the ranges of entries by position, `memory` those for outputs."""
        if shared or memory:
            return _filled(self._lent_pieces(shared or {}, memory or {}), data)
        if self._encoded is None:
            self._encoded = self._pieces({}, {})
        return _filled(self._encoded, data)

    def _lent_pieces(
        self, shared: Mapping[int, SharedRange], memory: Mapping[tuple[int, str], SharedRange]
    ) -> Sequence[Piece]:
        """Returns the pieces with these ranges: the regions of a pool come again."""
        for each in self._lent:
            if each.memory == memory and each.shared == shared:
                return each.pieces
        found = _Lent(shared, memory, self._pieces(shared, memory))
        # Another thread may add pieces meanwhile.
        self._lent = (found, *self._lent[: _MOST_LENT - 1])
        return found.pieces

    def header(self, chunk_bytes: int, inline_bytes: int, data: Data) -> tuple[Callable[[], bytes], list[Announced]]:
        """Returns the parts of the first message of the program in chunks, and the tensors that follow it.

        It has small tensors of up to `inline_bytes` together.
        """
        header = self._header
        if header is None or (header.chunk_bytes, header.inline_bytes) != (chunk_bytes, inline_bytes):
            # Another thread may need another one meanwhile.
            header = self._header = self._new_header(chunk_bytes, inline_bytes)
        announced = [
            Announced(position, data[each] if isinstance(each, Placeholder) else each.data)
            for position, each in header.announced
        ]
        return partial(self._header_of, header, data), announced

    def _new_header(self, chunk_bytes: int, inline_bytes: int) -> "_Header":
        large = self._large(chunk_bytes, inline_bytes)
        table = [index for index, is_there in enumerate(self._in_table) if index in large or is_there]
        announced = [(position, self.entries[index]) for position, index in enumerate(table) if index in large]
        return _Header(chunk_bytes, inline_bytes, large, announced, [])

    def _header_of(self, header: "_Header", data: Data) -> bytes:
        if not header.pieces:
            pieces = self._pieces(dict.fromkeys(header.large, SHAPE_ONLY), {})
            before, behind = header_around(sum(map(_size, pieces)), header.chunk_bytes)
            # Another thread may do the same.
            header.pieces[:] = _joined([before, *pieces, behind], (bytes, memoryview))
        return _filled(header.pieces, data)

    def _large(self, chunk_bytes: int, left: int) -> set[int]:
        """Returns the positions of the entries that do not fit the rest of the header."""
        found = set()
        for index in sorted(range(len(self.entries)), key=lambda each: self.entries[each].size_bytes):
            left -= self.entries[index].size_bytes
            if self.entries[index].size_bytes > min(_INLINE_BYTES, chunk_bytes // MANY_INPUTS) or left < 0:
                found.add(index)
        return found

    def _pieces(self, sources: Mapping[int, Source], memory: Mapping[tuple[int, str], SharedRange]) -> list[Piece]:
        """Returns the pieces of an ExecuteProgramRequest, with other sources for some entries."""
        table: list[Piece] = []
        table_count = 0
        given: dict[int, Source] = {}
        for index, entry in enumerate(self.entries):
            source = sources.get(index) or entry.source
            if self._in_table[index] or source is SHAPE_ONLY:
                given[id(entry)] = TableEntry(table_count, 0)
                table_count += 1
                is_filled = isinstance(entry, Placeholder) and source is entry.source
                table += table_field(TensorView("", entry.type, source), entry.size_bytes if is_filled else None)
                table += [entry] if isinstance(entry, Placeholder) and is_filled else ()
            else:
                given[id(entry)] = source
        places: dict[int, dict[str, SharedRange]] = {}
        for (number, name), place in memory.items():
            places.setdefault(number, {})[name] = place
        steps = [self._step(number, given, places.get(number, {})) for number in range(len(self._steps))]
        rest = rest_of_program(self._wanted_back(), self._product)
        return _joined([*step_fields(steps), *table, rest], (bytes,))

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


class _Lent(NamedTuple):
    """A message with these ranges of shared memory."""

    shared: Mapping[int, SharedRange]
    memory: Mapping[tuple[int, str], SharedRange]
    pieces: Sequence[Piece]


class _Header(NamedTuple):
    """The first message of a portion in chunks, with small tensors."""

    chunk_bytes: int
    inline_bytes: int
    large: Collection[int]
    """The positions of the entries after it."""
    announced: Sequence[tuple[int, Entry | Placeholder]]
    """The entries, with their positions in the table."""
    pieces: list[Piece]
    """Empty until needed."""


def _filled(pieces: Iterable[Piece], data: Data) -> bytes:
    return b"".join([data[each] if isinstance(each, Placeholder) else each for each in pieces])


def _size(piece: Piece) -> int:
    return piece.size_bytes if isinstance(piece, Placeholder) else len(piece)


def _joined(pieces: Iterable[Piece], kinds: tuple[type, ...]) -> list[Piece]:
    """Returns the pieces, consecutive ones of these kinds joined, because each run joins all of them."""
    found: list[Piece] = []
    for is_one, group in groupby(pieces, lambda each: isinstance(each, kinds)):
        run = list(group)
        found += [_filled(run, {})] if is_one else run
    return found


Portions = dict[tuple[int, ...], Portion]
"""Portions by their steps."""
