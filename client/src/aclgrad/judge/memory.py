"""A limit of the memory that calls of a dump may take: a few numbers in it may ask for tensors of any size."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/statm")
_MEMORY: Final = Path("/proc/meminfo")


@contextmanager
def within_memory() -> Iterator[None]:
    """Has allocations fail within the block beyond what is free now, where the system tells it.

    PyTorch then raises an error, which is that of one call. Otherwise the system would end the process.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = _free_bytes()
    if limit is None or (soft != resource.RLIM_INFINITY and soft <= limit):
        yield
        return
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _free_bytes() -> int | None:
    """Returns the address space that the process may have: what it has, and what is free."""
    try:
        pages = int(_STATUS.read_text("ascii").split()[0])
        lines = dict(line.split(":", 1) for line in _MEMORY.read_text("ascii").splitlines())
        return pages * resource.getpagesize() + int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
