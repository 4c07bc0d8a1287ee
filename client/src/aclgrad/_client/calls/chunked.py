"""A call in chunks: what is sent, and how the answer is read, without any input or output: both clients share it.

It is a program of one step, whose large inputs are the tensors of its table.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, Generic, TypeVar, cast

import numpy as np
from google.rpc import status_pb2

from aclgrad._client.attempts.rpc_errors import error_of_status, unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.destination import Destination, OutputBuffer
from aclgrad._client.calls.requirements import LARGE_BYTES
from aclgrad.errors import MalformedRequestError, ServerFaultError
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer, encode_step_header
from aclgrad.wire.limits import MAX_INPUTS
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import StepOutcome

_Result = TypeVar("_Result")
READY_WAIT_S: Final = 1.0
"""Without a word from the server, the chunks are sent after this time."""
_INLINE_BYTES: Final = 64 * 2**10
"""An input of no more bytes goes with the header, unless chunks are so small that the header would be larger."""


class ChunkedCall(Generic[_Result]):
    """A call in chunks: its messages, and the messages of the answer, each byte of which goes to its place at once."""

    method = "ExecuteProgramChunked"

    def __init__(
        self,
        call: OperatorCall,
        chunk_bytes: int,
        destination: Destination,
        settle: Callable[[Array], _Result],
    ) -> None:
        """`settle` gets the outputs, and returns the result of the call."""
        self._call = call
        self._chunk_bytes = chunk_bytes
        self._destination = destination
        self._settle = settle
        self._failure: status_pb2.Status | None = None
        self._outputs: tuple[TensorView, ...] = ()
        self._buffers: tuple[OutputBuffer, ...] = ()
        self._arrays: list[Array] = []
        self._index = 0
        """The output that continues at `_done`."""
        self._done = 0

    def messages(self) -> Iterator[bytes]:
        """Returns the messages, one after the other; raises InvalidFieldError for what the wire cannot hold."""
        call, chunk_bytes = self._call, self._chunk_bytes
        inline_bytes = min(_INLINE_BYTES, chunk_bytes // MAX_INPUTS)
        chunked = [tensor for tensor in call.inputs if tensor.data is not None and tensor.data.nbytes > inline_bytes]
        # At once: gRPC does not report to the caller what fails while it asks for messages.
        header = encode_step_header(call, [each.name for each in chunked], chunk_bytes)
        return chain((header,), _chunks(chunked, chunk_bytes))

    def take(self, message: bytes) -> None:
        """Raises ServerFaultError for a message that does not belong here, InvalidFieldError if `out` does not fit."""
        try:
            answer = decode_answer(message)
            if isinstance(answer, Chunk):
                self._write(answer)
                return
            outcome = self._only_outcome(answer)
            if not isinstance(outcome, tuple):
                self._failure = outcome
                return
            buffers = self._destination.buffers(outcome)
            arrays = [buffer.array_for(output.type) for buffer, output in zip(buffers, outcome, strict=True)]
        except (ValueError, MemoryError) as error:
            raise unreadable_reply(error) from error
        self._destination.check(outcome)
        self._outputs, self._buffers, self._arrays = outcome, buffers, arrays

    def _only_outcome(self, outcomes: Sequence[StepOutcome]) -> StepOutcome:
        if self._arrays or self._failure is not None:
            raise MalformedRequestError("results came twice")
        if len(outcomes) != 1:
            raise MalformedRequestError(f"{len(outcomes)} results came for one step")
        return outcomes[0]

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

    @property
    def reads_much(self) -> bool:
        """Whether `result` copies more than an event loop should."""
        pairs = zip(self._buffers, self._arrays, strict=True)
        return sum(array.nbytes for buffer, array in pairs if buffer.copies(array)) > LARGE_BYTES

    def result(self) -> _Result:
        """Returns the result of the whole; raises its error, or ServerFaultError where the answer ended early."""
        if self._failure is not None:
            raise error_of_status(self._failure)
        if self._arrays:
            self._skip_complete()
        if not self._arrays or self._index + 1 < len(self._arrays) or self._bytes_left():
            raise ServerFaultError(f"the reply of the server ended after {self._done} bytes of output {self._index}")
        taken = [buffer.take(array) for buffer, array in zip(self._buffers, self._arrays, strict=True)]
        return self._settle(cast(Array, self._destination.result(self._outputs, taken)))


def _chunks(tensors: Sequence[TensorView], chunk_bytes: int) -> Iterator[bytes]:
    for position, tensor in enumerate(tensors):
        data = tensor.data
        assert data is not None
        for offset in range(0, data.nbytes, chunk_bytes):
            piece = data[offset : offset + chunk_bytes]
            yield b"".join((chunk_prefix(position, offset, len(piece)), piece))
