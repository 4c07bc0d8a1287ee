"""The memory that a container gives the server."""

from pathlib import Path
from typing import Final

from aclgrad_server.faults import StartError

MIN_MEMORY_BYTES: Final = 128 * 2**20
"""What the interpreter, the libraries, small calls and a health check beside them take."""
_CONTROL_GROUPS: Final = Path("/sys/fs/cgroup")


def check_memory(control_groups: Path = _CONTROL_GROUPS) -> None:
    """Raises StartError where memory is too little: the kernel would end the server amid calls, without a word."""
    limit = _limit_bytes(control_groups)
    if limit is not None and limit < MIN_MEMORY_BYTES:
        raise StartError(
            f"the memory limit of {limit / 2**20:.0f} MiB is less than the {MIN_MEMORY_BYTES / 2**20:.0f} MiB that "
            f"the server needs; give the container more"
        )


def _limit_bytes(control_groups: Path) -> int | None:
    """Returns the limit of the control group that a container sees as its own, of either version; None without one."""
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        file = control_groups / name
        told = file.read_text().strip() if file.is_file() else ""
        if told.isdigit():
            return int(told)
    return None
