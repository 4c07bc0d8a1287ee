"""The large tensors of one call in regions of shared memory, which it lends to a server on the same host."""

import ctypes
import threading
import weakref
from types import TracebackType
from typing import Any, Self

import numpy as np

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.destination import NEW, Destination
from aclgrad._client.calls.exchanges import gradient_of
from aclgrad._client.calls.outgoing import LARGE_BYTES, OutgoingCall
from aclgrad._client.shared_memory.fork_copies import keep_apart
from aclgrad._client.shared_memory.regions import Region, RegionPool
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import SharedRange, TensorType, TensorView
from aclgrad.wire import shared_memory as wire
from aclgrad.wire.messages import OperatorCall, decode_response


class Loan:
    """The regions that one attempt of a call lends to the server for its large tensors, and takes back in the end."""

    def __init__(self, pool: RegionPool, outgoing: OutgoingCall, destination: Destination = NEW) -> None:
        self._pool = pool
        self._outgoing = outgoing
        self._destination = destination
        self._lent: list[Region] = []
        self._output: Region | None = None
        # A caller that is cancelled may leave while another thread lends or reads.
        self._lock = threading.Lock()
        self._has_ended = False

    def lend(self) -> OutgoingCall:
        """Returns the call with its large tensors in regions; what there is no room for stays as it was."""
        call, output = self._outgoing.call, self._outgoing.output()
        inputs = tuple(map(self._share, call.inputs))
        memory = {}
        if output is not None and output.size_bytes >= wire.SHARED_ABOVE_BYTES:
            self._output = self._take(output.size_bytes)
            if self._output is not None:
                name = OPERATORS[call.operator].output.name
                memory = {name: SharedRange(self._output.name, 0, output.size_bytes)}
        return OutgoingCall(OperatorCall(call.operator, inputs, call.attributes, memory), self._outgoing.withheld)

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
    def copies_much(self) -> bool:
        """Whether `read` copies more than an event loop should: a gradient that stays in its region is not copied."""
        output = self._outgoing.output()
        is_copied = self._output is None or self._destination.is_given
        return output is not None and output.size_bytes > LARGE_BYTES and is_copied

    def read(self, reply: bytes) -> np.ndarray[Any, Any]:
        """Returns the gradient where it is; its region goes back when nobody has the array any more.

        Raises ServerFaultError for bytes that are no reply to this call.
        """
        try:
            (output,) = decode_response(reply)
            if isinstance(output.data, SharedRange):
                return self._destination.take(self._take_over(output.type))
        except ValueError as error:
            raise unreadable_reply(error) from error
        return gradient_of((output,), self._destination)

    def _take_over(self, type: TensorType) -> np.ndarray[Any, Any]:
        region = self._output
        if region is None or type != self._outgoing.output():
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
        if not isinstance(data, memoryview) or data.nbytes < wire.SHARED_ABOVE_BYTES:
            return tensor
        region = self._take(data.nbytes)
        if region is None:
            return tensor
        # By numpy, whose copy lets go of the GIL.
        np.frombuffer(region.memory, np.uint8, data.nbytes)[:] = np.frombuffer(data, np.uint8)
        return TensorView(tensor.name, tensor.type, SharedRange(region.name, 0, data.nbytes))

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
