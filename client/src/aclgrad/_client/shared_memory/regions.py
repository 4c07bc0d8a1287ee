"""The client's regions of shared memory, lent by calls to a server on the same host.

A region has one owner at a time: the pool, a call, or the returned array. After a failed call it is dropped, because
the server may still use it.
"""

import mmap
import os
import secrets
import threading
import weakref
from collections import deque
from contextlib import suppress
from multiprocessing import resource_tracker
from typing import Final

from aclgrad._client.shared_memory.fork_copies import forget
from aclgrad.wire import service

MAX_KEPT: Final = 16
"""Regions kept for their next use."""
_GRANULE: Final = 2**20


class Region:
    """A POSIX shared-memory object of ours; its memory lives as long as a view of it, its name until `unlink`."""

    def __init__(self, size_bytes: int) -> None:
        """Raises OSError if /dev/shm has no room."""
        self.name = f"/{service.SHARED_PREFIX}{secrets.token_hex(8)}"
        self.size_bytes = size_bytes
        self.is_released = False
        self._process_id = os.getpid()
        # The tracker is a separate process, which removes the name if this one dies first.
        resource_tracker.register(self.name, "shared_memory")
        try:
            file = os.open(service.SHARED_FOLDER + self.name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            try:
                # Not truncate: without room for its pages, the first access would kill the process.
                os.posix_fallocate(file, 0, size_bytes)
                self.memory = mmap.mmap(file, size_bytes)
            finally:
                os.close(file)
        except BaseException:
            self.unlink()
            raise

    @property
    def is_inherited(self) -> bool:
        """Whether this process is a fork of the one that made it, which still uses it."""
        return self._process_id != os.getpid()

    def unlink(self) -> None:
        """Removes the name; a forked process leaves it to the one that made it."""
        if not self.is_inherited:
            self._remove()
            resource_tracker.unregister(self.name, "shared_memory")

    def release(self) -> None:
        """Gives the memory back without a lock, and leaves the rest to `unlink`."""
        if not self.is_inherited:
            self._remove()
        self.is_released = True
        del self.memory

    def _remove(self) -> None:
        with suppress(FileNotFoundError):
            os.unlink(service.SHARED_FOLDER + self.name)


class RegionPool:
    """Reusable regions: fresh memory costs more than the copy into it. Safe to share between threads.

    Remaining names are removed with the pool, or when the interpreter ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: list[Region] = []
        self._named: set[Region] = set()
        self._returned: deque[Region] = deque()
        self._is_closed = False
        weakref.finalize(self, _unlink_all, self._named)

    def take(self, size_bytes: int) -> Region:
        """Returns a region of at least this size; raises OSError if there is no room for one."""
        with self._lock:
            while self._returned:
                self._keep(self._returned.popleft())
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
            # Regions kept for other sizes may take the room.
            with self._lock:
                while self._free:
                    self._drop(self._free.pop())
            region = Region(rounded)
        with self._lock:
            self._named.add(region)
        return region

    def give_back(self, region: Region) -> None:
        with self._lock:
            self._keep(region)

    def give_back_later(self, region: Region) -> None:
        """Gives back without a lock, because the garbage collector calls it at any point of a thread."""
        forget(region.memory)
        if region.is_inherited:
            # A forked child has a copy, which the server cannot see.
            region.release()
            return
        if self._is_closed or len(self._returned) >= MAX_KEPT:
            region.release()
        if not self._is_closed:
            self._returned.append(region)

    def drop(self, region: Region) -> None:
        """Removes a region that must not be reused."""
        with self._lock:
            self._drop(region)

    def close(self) -> None:
        """Removes every name; arrays keep their memory."""
        with self._lock:
            self._is_closed = True
            self._free.clear()
            self._returned.clear()
            _unlink_all(self._named)

    def _keep(self, region: Region) -> None:
        if self._is_closed or region.is_released or region not in self._named:
            self._drop(region)
            return
        self._free.append(region)
        if len(self._free) > MAX_KEPT:
            self._drop(self._free.pop(0))

    def _drop(self, region: Region) -> None:
        if region in self._named:
            self._named.remove(region)
            region.unlink()


def _unlink_all(named: set[Region]) -> None:
    while named:
        named.pop().unlink()
