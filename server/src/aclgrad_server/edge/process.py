"""The limits of the process: memory and open files."""

import logging
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aclgrad.units import size
from aclgrad_server.exits import StartError

log = logging.getLogger(__name__)

MIN_MEMORY_BYTES: Final = 128 * 2**20
"""Memory of the interpreter, the libraries, small calls and a concurrent health check."""
_ROOT: Final = Path("/")
OTHER_FILES: Final = 768
"""Files other than client connections: the admin listener's (512), shared memory, devices, libraries."""
FILES_OF_WORKER: Final = 5
"""Files of a supervisor for each worker: its input, its port, and requests of its state, metrics and status."""


def check_memory(setting: int | None, processes: int = 1, root: Path = _ROOT) -> None:
    """Raises StartError if the memory limit is too low for this many processes.

    They would refuse every call, or the kernel would kill them during calls.
    """
    limit, needed = memory_limit(setting, root), processes * MIN_MEMORY_BYTES
    if limit >= needed:
        return
    who, fewer = "the server needs", ""
    if processes > 1:
        who, fewer = f"{processes} workers need", ", or give fewer --workers"
    remedy = "give the container, the service or the machine more"
    if limit == setting:
        remedy = "raise --memory-limit-bytes (ACLGRAD_MEMORY_LIMIT_BYTES)"
    raise StartError(f"the memory limit of {size(limit)} is less than the {size(needed)} that {who}; {remedy}{fewer}")


def memory_limit(setting: int | None, root: Path = _ROOT) -> int:
    """Returns the memory limit of the process: the least of the setting, its control groups and the machine."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    told = (file.read_text().strip() for file in _limit_files(root) if file.is_file())
    return min(filter(None, (setting, machine, *(int(each) for each in told if each.isdigit()))))


def _limit_files(root: Path) -> Iterator[Path]:
    """Yields the paths of the limits of the process's control groups and their parents, in both versions.

    A container may see its own group as the mount itself, not under the path of /proc; then only the mount exists.
    """
    groups, mounts = root / "proc/self/cgroup", root / "sys/fs/cgroup"
    for line in groups.read_text().splitlines() if groups.is_file() else ():
        match line.split(":", 2):
            case _, "", group:
                mount, name = mounts, "memory.max"
            case _, controllers, group if "memory" in controllers.split(","):
                mount, name = mounts / "memory", "memory.limit_in_bytes"
            case _:
                continue
        folder = mount / group.lstrip("/")
        yield from (each / name for each in (folder, *folder.parents) if each.is_relative_to(mount))


def check_open_files(others: int = 1) -> int:
    """Returns the limit of open files; raises StartError if it is too low for the process's own files and these others.

    Otherwise idle connections could take the files needed for health checks, or by a supervisor for its workers.
    """
    _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    if limit < (needed := OTHER_FILES + others):
        remedy = "raise it (ulimit -n, LimitNOFILE, docker run --ulimit)"
        raise StartError(f"the limit of open files is {limit}, and the server needs at least {needed}; {remedy}")
    return limit


def ensure_open_files(connection_limit: int) -> int:
    """Raises RLIMIT_NOFILE to what this many connections need, and returns how many are allowed.

    Warns if fewer are allowed, and raises StartError if none is.
    """
    needed = connection_limit + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connection_limit
    allowed = min(needed, check_open_files())
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        message = "the limit of open files is %d, and %d connections need %d; raise it (ulimit -n, LimitNOFILE)"
        log.warning(message, allowed, connection_limit, needed)
    return allowed - OTHER_FILES
