"""The large tensors of one call in regions of shared memory, which it lends to a server on the same host."""

import ctypes
import threading
import weakref
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.call import Call, size_bytes
from aclgrad._client.calls.chunked import ChunkedCall
from aclgrad._client.calls.exchange import Exchange
from aclgrad._client.shared_memory.fork_copies import keep_apart
from aclgrad._client.shared_memory.regions import Region, RegionPool
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorView
from aclgrad.wire import service
from aclgrad.wire.messages import decode_response, encode_request


class Loan(Exchange[Array]):
    """The regions that one attempt of a call lends to the server for its large tensors, and takes back in the end."""

    method = Call.method

    def __init__(self, pool: RegionPool, call: Call) -> None:
        self._pool = pool
        self._call = call
        self.sent = call.sent
        self._message_bytes = self.size_bytes = call.size_bytes
        self._lent: list[Region] = []
        self._regions: dict[str, Region] = {}
        """Where the large outputs are to go, by name."""
        # A caller that is cancelled may leave while another thread lends or reads.
        self._lock = threading.Lock()
        self._has_ended = False

    def lend(self) -> None:
        """Puts the large tensors of the call into regions; what there is no room for stays as it was."""
        inputs = tuple(map(self._share, self._call.sent.inputs))
        memory = {}
        for output in self._call.outputs:
            needed = output.type.size_bytes
            region = self._take(needed) if needed >= service.SHARED_ABOVE_BYTES else None
            if region is not None:
                self._regions[output.name] = region
                memory[output.name] = SharedRange(region.name, 0, needed)
        self.sent = replace(self._call.sent, inputs=inputs, output_memory=memory)
        self._message_bytes = size_bytes(self.sent, self._call.outputs)
        # An output that stays in its region is not copied.
        is_given = self._call.destination.is_given
        copied = [each for each in self._call.outputs if each.name not in self._regions or is_given]
        self.size_bytes = max(self._message_bytes, sum(each.type.size_bytes for each in copied))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._has_ended = True
            lent, self._lent = self._lent, []
        # After a failure the server may still read and write: nobody is to use the regions again.
        end = self._pool.give_back if error is None else self._pool.drop
        for region in lent:
            end(region)

    @property
    def request(self) -> bytes:
        return encode_request(self.sent)

    def in_chunks(self) -> ChunkedCall[Array] | None:
        """Returns the call without regions if there was no room for all of it, and the rest does not fit a message."""
        return self._call.chunks_for(self._message_bytes)

    def read(self, reply: bytes) -> Array:
        """Returns the outputs where they are; a region goes back when nobody has its array any more."""
        try:
            outputs = decode_response(reply)
        except ValueError as error:
            raise unreadable_reply(error) from error
        return self._call.destination.read(outputs, self._take_over)

    def _take_over(self, output: TensorView) -> Array:
        type, region = output.type, self._regions.get(output.name)
        if region is None or TensorView(output.name, type) not in self._call.outputs:
            raise ValueError(f"it has {type} in shared memory that was not lent for that")
        held = (ctypes.c_char * type.size_bytes).from_buffer(region.memory)
        array = np.frombuffer(memoryview(held), type.dtype.numpy).reshape(type.shape)
        with self._lock:
            if not self._has_ended:
                # From here on it is the array's.
                self._lent.remove(region)
        keep_apart(region.memory)
        weakref.finalize(held, self._pool.give_back_later, region).atexit = False
        return array

    def _share(self, tensor: TensorView) -> TensorView:
        """Returns the tensor with its data in shared memory, or as it is where it is small or there is no room."""
        data = tensor.data
        if data is None or data.nbytes < service.SHARED_ABOVE_BYTES:
            return tensor
        region = self._take(data.nbytes)
        if region is None:
            return tensor
        # By numpy, whose copy lets go of the GIL.
        np.frombuffer(region.memory, np.uint8, data.nbytes)[:] = np.frombuffer(data, np.uint8)
        return replace(tensor, source=SharedRange(region.name, 0, data.nbytes))

    def _take(self, size_bytes: int) -> Region | None:
        try:
            region = self._pool.take(size_bytes)
        except (OSError, OverflowError):
            # Overflow: the call is not legal, and the server will say why.
            return None
        with self._lock:
            if not self._has_ended:
                self._lent.append(region)
                return region
        self._pool.drop(region)
        return None


class LendingPool(RegionPool):
    """The regions of one client."""

    def lend(self, call: Call) -> Loan:
        """Returns the loan of one attempt, which holds nothing yet."""
        return Loan(self, call)
