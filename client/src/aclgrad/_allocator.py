"""The C library's allocator, for programs that send and receive large gradients."""

import ctypes
import sys
from typing import Final

# Parameters of mallopt(3), with the values that the server gives them.
_MALLOPT: Final = {
    "M_MMAP_THRESHOLD": (-3, 2**30),
    "M_TRIM_THRESHOLD": (-1, 2**31 - 1),
    "M_TOP_PAD": (-2, 64 * 2**20),
    "M_ARENA_MAX": (-8, 1),
}


def tune_allocator() -> bool:
    """Has glibc keep freed memory for later calls instead of unmapping it, and says whether it does.

    The page faults of memory that is fresh each time are a good part of what a gradient of many megabytes costs. It
    concerns the whole process, which then keeps the memory of its largest moment: so it is never done unasked. Call it
    before other threads begin. False means another C library, or a glibc that allows less.
    """
    if not sys.platform.startswith("linux"):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    return all([library.mallopt(parameter, value) == 1 for parameter, value in _MALLOPT.values()])
