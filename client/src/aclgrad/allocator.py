"""glibc's allocator: freed memory that is kept for later messages, and given back."""

import ctypes
from typing import Any, Final

# Freed memory stays mapped, because page faults of fresh memory are what a large message costs most. One heap, because
# only the first one can hold blocks of more than 64 MiB, and each thread has a cache of small ones. Measured with glibc
# 2.36 on two cores, for a server: 1.4x the calls/s at 6.4 MB and 2x at 100 MB; two heaps lose a third of it at 100 MB;
# a threshold of 32 MiB gives most of the gain at 6.4 MB and none at 100 MB.
_MALLOPT: Final = {
    "M_MMAP_THRESHOLD": (-3, 2**30),
    "M_TRIM_THRESHOLD": (-1, 2**31 - 1),
    "M_TOP_PAD": (-2, 64 * 2**20),
    "M_ARENA_MAX": (-8, 1),
}
"""Parameters of mallopt(3), with their numbers and values."""
_OLD_MMAP_THRESHOLD: Final = 32 * 2**20
"""The most before glibc 2.35, as also for the variable MALLOC_MMAP_THRESHOLD_."""


def tune_allocator() -> bool:
    """Has glibc keep freed memory for later calls instead of unmapping it, and says whether it does.

    The page faults of memory that is fresh each time are a good part of what a gradient of many megabytes costs. It
    concerns the whole process, which then keeps the memory of its largest moment: so it is never done unasked. Call it
    before other threads begin. False means another C library, or a glibc that allows less.
    """
    library = _glibc()
    if library is None:
        return False
    refused = [name for name, (parameter, value) in _MALLOPT.items() if library.mallopt(parameter, value) != 1]
    if "M_MMAP_THRESHOLD" in refused:
        library.mallopt(_MALLOPT["M_MMAP_THRESHOLD"][0], _OLD_MMAP_THRESHOLD)
    return not refused


def trim_allocator() -> bool:
    """Gives free memory of every heap back to the system and says whether there was any; milliseconds per gigabyte."""
    library = _glibc()
    return library is not None and library.malloc_trim(0) == 1


def _glibc() -> Any:
    """Returns the C library if it is glibc, or None."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "gnu_get_libc_version") else None
