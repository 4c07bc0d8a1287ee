"""What a process holds of the machine."""

import os
import re
from pathlib import Path
from typing import Final

MEBIBYTE: Final = 2**20
_ROLLUP: Final = re.compile(r"^(Rss|Pss): +(\d+) kB$", re.MULTILINE)
_SHARED: Final = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) .* /dev/shm/", re.MULTILINE)


def figures_of(process_id: int) -> dict[str, float]:
    """Returns memory, open files, threads and connections by name; nothing if the process has ended.

    RSS and PSS are in MiB. Connections are sockets of any kind, those included on which the process listens.
    """
    folder = Path(f"/proc/{process_id}")
    try:
        memory = {name.upper(): int(kib) / 1024 for name, kib in _ROLLUP.findall((folder / "smaps_rollup").read_text())}
        shared = _SHARED.findall((folder / "maps").read_text())
        threads = len(os.listdir(folder / "task"))
        files = [_target(each) for each in (folder / "fd").iterdir()]
    except OSError:
        return {}
    if not memory:
        # A process that has ended and was not waited for has no memory.
        return {}
    return {
        **memory,
        "shared memory": sum(int(end, 16) - int(start, 16) for start, end in shared) / MEBIBYTE,
        "files": len(files),
        "threads": threads,
        "connections": sum(each.startswith("socket:") for each in files),
    }


def _target(file: Path) -> str:
    try:
        return os.readlink(file)
    except FileNotFoundError:
        return ""  # closed since it was listed
