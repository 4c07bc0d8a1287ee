"""Programs through a client: its attempts, retries and time limits, with messages that a raw codec made.

No method of a client sends such programs, so its exchanges are imitated: what `Core` asks of them is here.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import aclgrad
from aclgrad.errors import AclgradError, ServerFaultError, from_status
from aclgrad.tensors import TensorType, array_of_view
from aclgrad.wire.chunks import Chunk, decode_answer
from aclgrad.wire.programs import StepOutcome, decode_results
from tools.lab.known import Array, KnownProgram

Found = dict[tuple[int, str], Array]
"""What came back, by step and name."""


class ProgramExchange:
    """A program as the client repeats it: whole, whichever of its steps failed for a moment."""

    method = "ExecuteProgram"

    def __init__(self, known: KnownProgram, *, in_chunks: bool = False) -> None:
        self._known = known
        self._in_chunks = in_chunks
        self.size_bytes = len(known.request)

    @property
    def request(self) -> bytes:
        return self._known.request

    def read(self, reply: bytes) -> Found:
        return outputs_of(decode_results(reply), self._known.step_count)

    def in_chunks(self) -> "ChunkedProgram | None":
        return ChunkedProgram(self._known) if self._in_chunks else None

    def amend(self, error: AclgradError) -> None:
        """Nothing that the server asks for was left out."""


async def ask(client: Any, known: KnownProgram, timeout_s: float, *, in_chunks: bool = False) -> Found:
    """Returns what either client gets for the program; a coroutine of a Client never waits."""
    exchange = ProgramExchange(known, in_chunks=in_chunks)
    found: Found = await client._ask(exchange, timeout_s)  # noqa: SLF001 - no method sends such a program
    return found


def ask_at_once(client: aclgrad.Client, known: KnownProgram, timeout_s: float, *, in_chunks: bool = False) -> Found:
    try:
        ask(client, known, timeout_s, in_chunks=in_chunks).send(None)
    except StopIteration as end:
        found: Found = end.value
        return found
    raise AssertionError("a call of a Client waited for an event loop")


class ChunkedProgram:
    """One attempt in chunks."""

    method = "ExecuteProgramChunked"
    reads_much = False

    def __init__(self, known: KnownProgram) -> None:
        self._known = known
        self._outcomes: list[StepOutcome] = []
        self._data: list[bytearray] = []
        """Of each output that was announced."""
        self._first = 0
        """The first output of the results that came last."""

    def messages(self) -> Iterator[bytes]:
        return iter(self._known.messages)

    def take(self, message: bytes) -> None:
        answer = decode_answer(message)
        if isinstance(answer, Chunk):
            data = self._data[self._first + answer.tensor]
            if answer.offset != len(data):
                raise ServerFaultError(f"a chunk at byte {answer.offset} came after {len(data)} bytes")
            data += answer.data
            return
        self._first = len(self._data)
        self._outcomes += answer
        self._data += (bytearray() for each in answer if isinstance(each, tuple) for _ in each)

    def result(self) -> Found:
        return outputs_of(self._outcomes, self._known.step_count, self._data)


def outputs_of(outcomes: Sequence[StepOutcome], step_count: int, data: Sequence[bytearray] | None = None) -> Found:
    """Returns the outputs, from `data` if they came in chunks; raises the error of the first step that failed."""
    if len(outcomes) != step_count:
        raise ServerFaultError(f"the server answered {len(outcomes)} of {step_count} steps")
    found: Found = {}
    for number, outcome in enumerate(outcomes):
        if not isinstance(outcome, tuple):
            # Steps that use its output follow it.
            raise from_status(outcome) or ServerFaultError(f"step {number}: {outcome.message}")
        for each in outcome:
            whole = None if data is None else _array(each.type, data[len(found)])
            found[number, each.name] = array_of_view(each) if whole is None else whole
    return found


def _array(type: TensorType, data: bytearray) -> Array:
    if len(data) != type.size_bytes:
        raise ServerFaultError(f"the answer ended after {len(data)} bytes of {type.size_bytes}")
    return np.frombuffer(data, type.dtype.numpy).reshape(type.shape)
