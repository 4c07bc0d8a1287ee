"""Shared memory of the client: regions that calls lend to a server on the same host.

A region has one owner at a time: the pool, a call, or the array that the call returned. After a call that failed it is
dropped, for the server may still be at it.
"""

import ctypes
import mmap
import os
import secrets
import threading
import weakref
from collections import deque
from contextlib import suppress
from multiprocessing import resource_tracker
from types import TracebackType
from typing import Any, Final, Self

import numpy as np

from aclgrad._client.attempts.rpc_errors import unreadable_reply
from aclgrad._client.calls.destination import NEW, Destination
from aclgrad._client.calls.exchanges import gradient_of
from aclgrad._client.calls.outgoing import LARGE_BYTES, Plan
from aclgrad._client.shared_memory.fork_copies import forget, keep_apart
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import SharedRange, TensorType, TensorView
from aclgrad.wire.messages import OperatorCall, decode_response

PREFIX: Final = "aclgrad-"
SHARED_ABOVE_BYTES: Final = 64 * 2**10
"""Smaller tensors go faster in the message."""
_FOLDER: Final = "/dev/shm"
_MAX_KEPT: Final = 16
_GRANULE: Final = 2**20


class Region:
    """A POSIX shared-memory object of ours; its memory lives as long as somebody views it, its name until `unlink`."""

    def __init__(self, size_bytes: int) -> None:
        """Raises OSError where /dev/shm has no room."""
        self.name = f"/{PREFIX}{secrets.token_hex(8)}"
        self.size_bytes = size_bytes
        self.is_released = False
        self._process_id = os.getpid()
        # The tracker is a process of its own: it removes the name if this one dies without doing so.
        resource_tracker.register(self.name, "shared_memory")
        try:
            file = os.open(_FOLDER + self.name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                # Not truncate: without the room for its pages the first touch would end the process.
                os.posix_fallocate(file, 0, size_bytes)
                self.memory = mmap.mmap(file, size_bytes)
            finally:
                os.close(file)
        except BaseException:
            self.unlink()
            raise

    @property
    def is_inherited(self) -> bool:
        """Whether this process was forked off the one that made it, and goes on using it."""
        return self._process_id != os.getpid()

    def unlink(self) -> None:
        """Removes the name; a process that was forked off leaves it to the one that made it."""
        if not self.is_inherited:
            self._remove()
            resource_tracker.unregister(self.name, "shared_memory")

    def release(self) -> None:
        """Gives the memory back and leaves the rest to `unlink`; takes no lock."""
        if not self.is_inherited:
            self._remove()
        self.is_released = True
        del self.memory

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(_FOLDER + self.name)


class RegionPool:
    """Regions to be used again: fresh memory would cost more than the copy into it. Safe to share between threads.

    Names that are left when the pool is forgotten or the interpreter ends are removed then.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Region] = []
        self._named: set[Region] = set()
        self._returned: deque[Region] = deque()
        self._is_closed = False
        weakref.finalize(self, _unlink_all, self._named)

    def take(self, size_bytes: int) -> Region:
        """Returns a region of at least this size; raises OSError where there is no room for one."""
        with self._lock:
            self._keep_returned()
            if any(each.is_inherited for each in self._free):
                self._free.clear()
            fitting = [each for each in self._free if size_bytes <= each.size_bytes <= 2 * size_bytes + _GRANULE]
            if fitting:
                region = min(fitting, key=lambda each: each.size_bytes)
                self._free.remove(region)
                return region
        rounded = -(-size_bytes // _GRANULE) * _GRANULE
        try:
            region = Region(rounded)
        except OSError:
            # What is kept for other sizes may be what takes the room.
            self._drop_free()
            region = Region(rounded)
        with self._lock:
            self._named.add(region)
        return region

    def give_back(self, region: Region) -> None:
        with self._lock:
            self._keep(region)

    def give_back_later(self, region: Region) -> None:
        """Gives back without any lock: the garbage collector calls it, in the middle of whatever a thread does."""
        forget(region.memory)
        if region.is_inherited:
            # A child has a copy, which the server cannot see.
            region.release()
            return
        if self._is_closed or len(self._returned) >= _MAX_KEPT:
            region.release()
        if not self._is_closed:
            self._returned.append(region)

    def drop(self, region: Region) -> None:
        """Removes a region that nobody is to use again."""
        with self._lock:
            self._drop(region)

    def close(self) -> None:
        """Removes every name; arrays keep their memory."""
        with self._lock:
            self._is_closed = True
            self._free.clear()
            self._returned.clear()
            _unlink_all(self._named)

    def _keep_returned(self) -> None:
        while self._returned:
            self._keep(self._returned.popleft())

    def _keep(self, region: Region) -> None:
        if self._is_closed or region.is_released or region not in self._named:
            self._drop(region)
            return
        self._free.append(region)
        if len(self._free) > _MAX_KEPT:
            self._drop(self._free.pop(0))

    def _drop_free(self) -> None:
        with self._lock:
            while self._free:
                self._drop(self._free.pop())

    def _drop(self, region: Region) -> None:
        if region in self._named:
            self._named.remove(region)
            region.unlink()


def _unlink_all(named: set[Region]) -> None:
    while named:
        named.pop().unlink()


class Loan:
    """The regions that one attempt of a call lends to the server for its large tensors, and takes back in the end."""

    def __init__(self, pool: RegionPool, plan: Plan, destination: Destination = NEW) -> None:
        self._pool = pool
        self._plan = plan
        self._destination = destination
        self._lent: list[Region] = []
        self._output: Region | None = None
        # A caller that is cancelled may leave while another thread lends or reads.
        self._lock = threading.Lock()
        self._has_ended = False

    def lend(self) -> Plan:
        """Returns the call with its large tensors in regions; what there is no room for stays as it was."""
        call, output = self._plan.call, self._plan.output()
        inputs = tuple(map(self._share, call.inputs))
        memory = {}
        if output is not None and output.size_bytes >= SHARED_ABOVE_BYTES:
            self._output = self._take(output.size_bytes)
            if self._output is not None:
                name = OPERATORS[call.operator].output.name
                memory = {name: SharedRange(self._output.name, 0, output.size_bytes)}
        return Plan(OperatorCall(call.operator, inputs, call.attributes, memory), self._plan.withheld)

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
        output = self._plan.output()
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
        if region is None or type != self._plan.output():
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
        if not isinstance(data, memoryview) or data.nbytes < SHARED_ABOVE_BYTES:
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
