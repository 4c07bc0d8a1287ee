"""What the container grants: processors, processes, memory for sharing, and a user with a name."""

import os
import pwd
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from aclgrad_server.doctor.subject import Found, Subject, fine, judged, noted

_GROUPS: Final = Path("/sys/fs/cgroup")
_OTHER_THREADS: Final = 128
"""Those of gRPC, the interpreter and the loader; CANN starts more than the streams need."""
_CANN_THREADS: Final = 512
_SHARED_BYTES: Final = 64 * 2**20
"""Docker's default size of /dev/shm, which holds only a few tensors."""


def container(subject: Subject) -> Iterator[Found]:
    """Limits of the control group, and the entry of the user."""
    settings, workers = subject.settings, len(subject.cards)
    cpus, quota = len(os.sched_getaffinity(0)), cpu_quota()
    if quota is None:
        yield "processors", fine(f"{cpus}, without a quota", cpus=cpus)
    else:
        # An event loop of each worker, and what computes: on the CPU, workers share the threads of streams.
        wanted = workers + (workers if subject.is_ascend else settings.streams)
        remedy = f"calls stop amid their work: raise the limit to {wanted}, or lower --streams"
        found = f"the container may use {quota:g} of {cpus}"
        is_enough = quota >= min(wanted, cpus)
        yield "processors", fine(found, cpus=quota) if is_enough else noted(f"{found}; {remedy}", cpus=quota)
    needed = workers * (_OTHER_THREADS + (_CANN_THREADS if subject.is_ascend else 0) + settings.streams + 2)
    allowed = process_limit()
    remedy = f"raise the limit to {needed} (docker: --pids-limit {needed}; Kubernetes: podPidsLimit of the kubelet)"
    found = "no limit" if allowed is None else f"the container may have {allowed}"
    yield "processes and threads", judged(allowed is None or allowed >= needed, found, remedy)
    if settings.shared_memory:
        free = shutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else 0
        remedy = "give the container more (docker: --shm-size 1g), or drop --shared-memory"
        yield "/dev/shm", judged(free > _SHARED_BYTES, f"{free / 2**20:.0f} MiB are free", remedy)
    if subject.is_ascend:
        yield "user", judged(_has_name(), f"user {os.getuid()}", "add an entry to /etc/passwd: CANN asks for the name")


def cpu_quota(groups: Path = _GROUPS) -> float | None:
    """Returns the processors that the control group may use, of either version; None without a limit."""
    words = _read(groups / "cpu.max").split()
    if not words:
        words = [_read(groups / "cpu" / name).strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    quota, period = words
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def process_limit(groups: Path = _GROUPS) -> int | None:
    """Returns the processes and threads that the control group may have; None without a limit."""
    for name in ("pids.max", "pids/pids.max"):
        told = _read(groups / name).strip()
        if told.isdigit():
            return int(told)
    return None


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""


def _has_name() -> bool:
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return True
