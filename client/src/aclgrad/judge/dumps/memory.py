"""A limit of the memory that calls of a dump may take: a few numbers in it may ask for tensors of any size."""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_STATUS: Final = Path("/proc/self/status")
_MEMORY: Final = Path("/proc/meminfo")


@contextmanager
def within_memory() -> Iterator[None]:
    """Has allocations fail within the block beyond what is free now, where the system tells it.

    PyTorch then raises an error, which is that of one call. Otherwise the system would end the process. Data is
    limited, and not addresses: threads reserve many of these that they never use.
    """
    limit = _free_bytes()
    if limit is None:
        yield
        return
    resource = importlib.import_module("resource")  # not on every system
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY and soft <= limit:
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _free_bytes() -> int | None:
    """Returns the data that the process may have: what it has, and what is free. None where Linux does not tell."""
    try:
        used = _kibibytes(_STATUS, "VmData")
        return (used + _kibibytes(_MEMORY, "MemAvailable")) * 1024
    except (OSError, LookupError, ValueError):
        return None


def _kibibytes(path: Path, name: str) -> int:
    lines = dict(line.split(":", 1) for line in path.read_text("utf-8").splitlines() if ":" in line)
    return int(lines[name].split()[0])
