"""The machine that a figure was measured on, for readers who compare it with theirs."""

import os
import platform
import re
from contextlib import suppress
from pathlib import Path


def cores() -> int:
    """Returns how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Returns the model of the processor; its architecture if the system does not name it."""
    with suppress(OSError):
        if found := re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE):
            return found[1]
    return platform.processor() or platform.machine()


def memory() -> str:
    """Returns the size of the memory."""
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    except (AttributeError, ValueError, OSError):
        return "unknown"


def system() -> str:
    """Returns the operating system, its kernel and Python."""
    name = platform.system()
    with suppress(AttributeError, OSError):
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    return f"{name}, kernel {platform.release()}, Python {platform.python_version()}"


def machine() -> str:
    """Returns all of it in one line."""
    return f"{processor()}, {cores()} cores, {memory()}, {system()}"
