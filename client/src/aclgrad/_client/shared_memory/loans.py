"""The large tensors of a call or a program in regions of shared memory, lent to a server on the same host."""

import ctypes
import threading
import weakref
from collections.abc import Mapping
from itertools import accumulate
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import numpy as np

from aclgrad._client.calls.arrays import Array
from aclgrad._client.calls.chunked import ChunkedProgram
from aclgrad._client.calls.exchange import Exchange
from aclgrad._client.calls.lender import Lender
from aclgrad._client.shared_memory.fork_copies import keep_apart
from aclgrad._client.shared_memory.regions import MAX_KEPT, Region, RegionPool
from aclgrad.sources import SharedRange
from aclgrad.tensors import TensorType, TensorView
from aclgrad.wire import service

_Result = TypeVar("_Result")
_ALIGNED_BYTES: Final = 64
"""Alignment of inputs that share a region."""


class Loan(Exchange[_Result]):
    """The regions that one attempt lends to the server for its large tensors, and takes back at the end."""

    def __init__(self, pool: RegionPool, call: Lender[_Result]) -> None:
        self._pool = pool
        self._call = call
        self.method = call.method
        self._message_bytes = self.size_bytes = call.size_bytes
        self._lent: list[Region] = []
        self._shared: dict[Any, SharedRange] = {}
        """The regions of large inputs."""
        self._regions: dict[Any, Region] = {}
        """The regions for large outputs."""
        self._memory: dict[Any, SharedRange] = {}
        """The same, in the server's form."""
        self._types: Mapping[Any, TensorType] = {}
        # A cancelled caller may leave while another thread lends or reads.
        self._lock = threading.Lock()
        self._has_ended = False

    def lend(self) -> None:
        """Puts the large tensors of the call into regions, as far as there is room."""
        inputs, self._types = self._call.lendable()
        large = {key: data for key, data in inputs.items() if data.nbytes >= service.SHARED_ABOVE_BYTES}
        if len(large) <= MAX_KEPT or not self._lend_together(large):
            for key, data in large.items():
                region = self._take(data.nbytes)
                if region is not None:
                    self._put(key, data, region, 0)
        for key, type in self._types.items():
            region = self._take(type.size_bytes)
            if region is not None:
                self._regions[key] = region
                self._memory[key] = SharedRange(region.name, 0, type.size_bytes)
        sent = sum(data.nbytes for key, data in inputs.items() if key not in self._shared)
        received = {key: type.size_bytes for key, type in self._types.items()}
        arriving = sum(each for key, each in received.items() if key not in self._regions)
        self._message_bytes = max(sent, arriving)
        # Outputs that stay in their regions are not copied.
        self.size_bytes = max(sent, sum(received.values()) if self._call.copies_outputs else arriving)

    def _lend_together(self, inputs: Mapping[Any, memoryview]) -> bool:
        """Puts all inputs into one region if the pool keeps too few; returns whether there was room.

        Further regions would be made anew for each call, and the server's cached plan would not match the message.
        """
        ends = list(accumulate(-(-data.nbytes // _ALIGNED_BYTES) * _ALIGNED_BYTES for data in inputs.values()))
        region = self._take(ends[-1])
        if region is None:
            return False
        for (key, data), begin in zip(inputs.items(), (0, *ends), strict=False):
            self._put(key, data, region, begin)
        return True

    def _put(self, key: Any, data: memoryview, region: Region, begin: int) -> None:
        # By numpy, whose copy releases the GIL.
        np.frombuffer(region.memory, np.uint8, data.nbytes, begin)[:] = np.frombuffer(data, np.uint8)
        self._shared[key] = SharedRange(region.name, begin, data.nbytes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._lock:
            self._has_ended = True
            lent, self._lent = self._lent, []
        # After a failure the server may still read and write, so the regions are not reused.
        end = self._pool.give_back if error is None else self._pool.drop
        for region in lent:
            end(region)

    @property
    def request(self) -> bytes:
        return self._call.request_in(self._shared, self._memory)

    def in_chunks(self) -> ChunkedProgram[_Result] | None:
        """Returns the exchange without regions if there was not room for all, and the rest does not fit a message."""
        return self._call.chunks_for(self._message_bytes)

    def read(self, reply: bytes) -> _Result:
        """Returns the outputs in place; a region goes back to the pool when its array is freed."""
        return self._call.read_from(reply, self._take_over)

    def _take_over(self, key: Any, output: TensorView) -> Array:
        type, region = output.type, self._regions.get(key)
        if region is None or type != self._types[key]:
            raise ValueError(f"it has {type} in shared memory that was not lent for that")
        held = (ctypes.c_char * type.size_bytes).from_buffer(region.memory)
        array = np.frombuffer(memoryview(held), type.dtype.numpy).reshape(type.shape)
        with self._lock:
            if not self._has_ended:
                # The array owns it from here on.
                self._lent.remove(region)
        keep_apart(region.memory)
        weakref.finalize(held, self._pool.give_back_later, region).atexit = False
        return array

    def _take(self, size_bytes: int) -> Region | None:
        """Returns a region for a tensor, or None if it is small or there is no room."""
        if size_bytes < service.SHARED_ABOVE_BYTES:
            return None
        try:
            region = self._pool.take(size_bytes)
        except (OSError, OverflowError):
            # Overflow: the call is illegal, and the server says why.
            return None
        with self._lock:
            if not self._has_ended:
                self._lent.append(region)
                return region
        self._pool.drop(region)
        return None


class LendingPool(RegionPool):
    """The regions of one client."""

    def lend(self, call: Lender[_Result]) -> Loan[_Result]:
        """Returns the loan of one attempt, which holds nothing yet."""
        return Loan(self, call)
