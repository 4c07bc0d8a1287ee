"""glibc's allocator: keeps freed memory for later messages, and gives it back."""

import ctypes
from typing import Any, Final

# Freed memory stays mapped, because page faults of fresh memory are the largest cost of a large message. One heap,
# because only the first one can hold blocks of more than 64 MiB, and each thread has a cache of small ones. Measured
# with glibc 2.36 on two cores, for a server: 1.4x the calls/s at 6.4 MB and 2x at 100 MB; two heaps lose a third of it
# at 100 MB; a threshold of 32 MiB gives most of the gain at 6.4 MB and none at 100 MB.
_MALLOPT: Final = {
    "M_MMAP_THRESHOLD": (-3, 2**30),
    "M_TRIM_THRESHOLD": (-1, 2**31 - 1),
    "M_TOP_PAD": (-2, 64 * 2**20),
    "M_ARENA_MAX": (-8, 1),
}
"""Parameters of mallopt(3), with their numbers and values."""
_OLD_MMAP_THRESHOLD: Final = 32 * 2**20
"""The limit before glibc 2.35, also of the variable MALLOC_MMAP_THRESHOLD_."""


def tune_allocator() -> bool:
    """Makes glibc keep freed memory for later calls instead of unmapping it; returns whether it does.

    Page faults of fresh memory are a large part of the cost of a gradient of many megabytes. The setting affects the
    whole process, which then keeps its peak memory, so it is opt-in. Call it before other threads begin. False means
    another C library, or a glibc that allows less.
    """
    library = _glibc()
    if library is None:
        return False
    refused = [name for name, (parameter, value) in _MALLOPT.items() if library.mallopt(parameter, value) != 1]
    if "M_MMAP_THRESHOLD" in refused:
        library.mallopt(_MALLOPT["M_MMAP_THRESHOLD"][0], _OLD_MMAP_THRESHOLD)
    return not refused


def trim_allocator() -> bool:
    """Gives free memory of every heap back to the system; returns whether there was any. Milliseconds per gigabyte."""
    library = _glibc()
    return library is not None and library.malloc_trim(0) == 1


def _glibc() -> Any:
    """Returns the C library if it is glibc, or None."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
