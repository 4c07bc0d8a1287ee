"""Keeps results in shared memory unchanged in forked children."""

import ctypes
import mmap
import os
import threading
from typing import Any, Final

_MAP_FIXED: Final = 0x10
_MAP_FAILED: Final = ctypes.c_void_p(-1).value

_lock = threading.Lock()
"""One fork at a time."""
_mappings: set[mmap.mmap] = set()
_copies: list[tuple[mmap.mmap, bytes]] = []


def keep_apart(mapping: mmap.mmap) -> None:
    """Gives children forked from now on a copy of the mapping at the same address."""
    _mappings.add(mapping)


def forget(mapping: mmap.mmap) -> None:
    """Ends that, without a lock, because the garbage collector calls it."""
    _mappings.discard(mapping)


def _before_fork() -> None:
    _lock.acquire()
    _copies.extend((mapping, mapping[:]) for mapping in _mappings.copy())


def _after_fork_in_parent() -> None:
    _copies.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    try:
        for mapping, copy in _copies:
            _replace(mapping, copy)
    finally:
        # They are no longer shared.
        _mappings.clear()
        _after_fork_in_parent()


def _replace(mapping: mmap.mmap, copy: bytes) -> None:
    """Replaces the mapping by private memory with these bytes; views of it stay valid."""
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    map_memory: Any = ctypes.CDLL(None, use_errno=True).mmap
    map_memory.restype = ctypes.c_void_p
    map_memory.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_size_t)
    kind = _MAP_FIXED | mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    if map_memory(address, len(copy), mmap.PROT_READ | mmap.PROT_WRITE, kind, -1, 0) == _MAP_FAILED:
        raise OSError(ctypes.get_errno(), "a result in shared memory stays shared with the parent process")
    mapping[:] = copy


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
