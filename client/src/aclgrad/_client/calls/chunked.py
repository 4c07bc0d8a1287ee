"""A program in chunks: its messages and its answer, without input or output: both clients share it."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from google.rpc import status_pb2

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.destination import Destination, OutputBuffer
from aclgrad._client.calls.requirements import LARGE_BYTES
from aclgrad.errors import InvalidFieldError, MalformedRequestError, ServerFaultError
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer
from aclgrad.wire.programs import StepOutcome

_Result = TypeVar("_Result")
READY_WAIT_S: Final = 1.0
"""If the server does not announce that it is ready, the chunks are sent after this time."""

Taken = Any
"""The outcome of a step: the outputs in their destination, the status, or the error of a wrong `out`."""


class Announced(NamedTuple):
    """The elements of a tensor sent in chunks, and its position in the table."""

    position: int
    data: memoryview


class _Arriving(NamedTuple):
    """A step whose outputs are arriving."""

    number: int
    outputs: tuple[TensorView, ...]
    buffers: tuple[OutputBuffer, ...]
    arrays: list[Array]


class ChunkedProgram(Generic[_Result]):
    """A program in chunks: its messages, and the answer's, whose bytes are written to their destination at once."""

    method = "ExecuteProgramChunked"

    def __init__(
        self,
        header: Callable[[], bytes],
        announced: Sequence[Announced],
        chunk_bytes: int,
        destinations: Sequence[Destination],
        settle: Callable[[list[Taken]], _Result],
    ) -> None:
        """Takes the destination of each step; `settle` gets the outcomes and returns the result."""
        self._header = header
        self._announced = announced
        self._chunk_bytes = chunk_bytes
        self._destinations = destinations
        self._settle = settle
        self._taken: list[Taken] = []
        """The outcomes so far; None for a step whose outputs are arriving."""
        self._steps: list[_Arriving] = []
        self._arrays: list[Array] = []
        """The bytes of all outputs in the latest results."""
        self._index = 0
        """The output that continues at `_done`."""
        self._done = 0

    def messages(self) -> Iterator[bytes]:
        """Yields the messages; raises InvalidFieldError if the wire cannot hold one."""
        # At once: gRPC does not report errors of the message iterator to the caller.
        header = self._header()
        return chain((header,), _chunks(self._announced, self._chunk_bytes))

    def take(self, message: bytes) -> None:
        """Reads a message of the answer; raises ServerFaultError if it does not belong here."""
        try:
            answer = decode_answer(message)
            if isinstance(answer, Chunk):
                self._write(answer)
            else:
                self._begin(answer)
        except (ValueError, MemoryError) as error:
            raise unreadable_reply(error) from error

    def _begin(self, outcomes: Sequence[StepOutcome]) -> None:
        """Prepares the destinations of the next steps."""
        self._check_complete()
        count = len(self._taken) + len(outcomes)
        if count > len(self._destinations):
            raise MalformedRequestError(f"{count} results came for {len(self._destinations)} steps")
        self._arrays, self._index, self._done = [], 0, 0
        for outcome in outcomes:
            number = len(self._taken)
            self._taken.append(outcome if isinstance(outcome, status_pb2.Status) else None)
            if isinstance(outcome, tuple):
                self._add(number, outcome)

    def _add(self, number: int, outputs: tuple[TensorView, ...]) -> None:
        destination = self._destinations[number]
        buffers = destination.buffers(outputs)
        try:
            destination.check(outputs)
        except InvalidFieldError as error:
            # A wrong `out` concerns no other step, and its chunks still arrive.
            self._taken[number] = error
            buffers = (OutputBuffer(),) * len(outputs)
        arrays = [buffer.array_for(output.type) for buffer, output in zip(buffers, outputs, strict=True)]
        self._arrays += arrays
        if self._taken[number] is None:
            self._steps.append(_Arriving(number, outputs, buffers, arrays))

    def _write(self, chunk: Chunk) -> None:
        if not self._arrays:
            raise MalformedRequestError("a chunk came without an output that it belongs to")
        self._skip_complete()
        bytes_left = self._bytes_left()
        if (chunk.tensor, chunk.offset) != (self._index, self._done) or len(chunk.data) > bytes_left:
            what = f"{len(chunk.data)} bytes at byte {chunk.offset} of output {chunk.tensor}"
            due = f"byte {self._done} of output {self._index}, which has {bytes_left} left,"
            raise MalformedRequestError(f"a chunk of {what} came where {due} was due")
        array = self._arrays[self._index].reshape(-1).view(np.uint8).data
        array[self._done : self._done + len(chunk.data)] = chunk.data
        self._done += len(chunk.data)

    def _bytes_left(self) -> int:
        return self._arrays[self._index].nbytes - self._done

    def _skip_complete(self) -> None:
        while self._index + 1 < len(self._arrays) and not self._bytes_left():
            self._index, self._done = self._index + 1, 0

    def _check_complete(self) -> None:
        """Raises ServerFaultError unless all bytes of the latest results have arrived."""
        if self._arrays:
            self._skip_complete()
            if self._index + 1 < len(self._arrays) or self._bytes_left():
                end = f"after {self._done} bytes of output {self._index}"
                raise ServerFaultError(f"the reply of the server ended {end}")

    @property
    def reads_much(self) -> bool:
        """Whether `result` copies more than an event loop should."""
        pairs = (pair for each in self._steps for pair in zip(each.buffers, each.arrays, strict=True))
        return sum(array.nbytes for buffer, array in pairs if buffer.copies(array)) > LARGE_BYTES

    def result(self) -> _Result:
        """Returns the result of the whole; raises ServerFaultError if the answer ended early."""
        self._check_complete()
        if len(self._taken) < len(self._destinations):
            end = f"after the results of {len(self._taken)} of {len(self._destinations)} steps"
            raise ServerFaultError(f"the reply of the server ended {end}")
        for number, outputs, buffers, arrays in self._steps:
            taken = [buffer.take(array) for buffer, array in zip(buffers, arrays, strict=True)]
            self._taken[number] = self._destinations[number].result(outputs, taken)
        return self._settle(self._taken)


def _chunks(announced: Sequence[Announced], chunk_bytes: int) -> Iterator[bytes]:
    for position, data in announced:
        for offset in range(0, data.nbytes, chunk_bytes):
            piece = data[offset : offset + chunk_bytes]
            yield b"".join((chunk_prefix(position, offset, len(piece)), piece))
