"""How many threads a device starts and how much memory it has: what the machine and the control groups grant."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import memory_trees, sanitizers

CPUS = len(os.sched_getaffinity(0))
Tell = Callable[..., tuple[int, int]]


@pytest.fixture
def tell(tmp_path: Path) -> Tell:
    """Tells the processors and the memory of a process that sees these files."""

    def run(files: dict[str, str], *launcher: str) -> tuple[int, int]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        command = [*sanitizers.launcher(), *launcher, sanitizers.build().programs / "usable"]
        told = subprocess.run(command, input=f"{tmp_path}\n", capture_output=True, text=True, check=True).stdout
        cpus, memory_bytes = map(int, told.split())
        return cpus, memory_bytes

    return run


GROUP = "proc/self/cgroup"
ROOT = "sys/fs/cgroup"
UNLIMITED: list[dict[str, str]] = [
    {},
    {GROUP: ""},
    {GROUP: "not a group\n"},
    {GROUP: "0::/\n"},
    {GROUP: "0::/\n", f"{ROOT}/cpu.max": "max 100000\n"},
    {GROUP: "0::/\n", f"{ROOT}/cpu.max": "\n"},
    {GROUP: "0::/\n", f"{ROOT}/cpu.max": "9900000000 100000\n"},
    {GROUP: "3:cpu,cpuacct:/\n", f"{ROOT}/cpu/cpu.cfs_quota_us": "-1\n", f"{ROOT}/cpu/cpu.cfs_period_us": "100000"},
    # Quotas of others.
    {GROUP: "0::/mine\n", f"{ROOT}/other/cpu.max": "100000 100000\n"},
    {GROUP: "4:cpuset:/\n", f"{ROOT}/cpu/cpu.cfs_quota_us": "1000\n", f"{ROOT}/cpu/cpu.cfs_period_us": "1000"},
]
ONE: list[dict[str, str]] = [
    {GROUP: "0::/\n", f"{ROOT}/cpu.max": "100000 100000\n"},
    {GROUP: "0::/\n", f"{ROOT}/cpu.max": "1000 100000\n"},
    {GROUP: "0::/a/b\n", f"{ROOT}/a/b/cpu.max": "50000 50000\n"},
    # A group above it grants less.
    {GROUP: "0::/a/b\n", f"{ROOT}/a/cpu.max": "70000 100000\n", f"{ROOT}/a/b/cpu.max": "max 100000\n"},
    # A container that sees its own group as the mount, under the path that the host knows.
    {GROUP: "0::/docker/f00\n", f"{ROOT}/cpu.max": "100000 100000\n"},
    {GROUP: "7:cpu,cpuacct:/x\n", f"{ROOT}/cpu/x/cpu.cfs_quota_us": "1", f"{ROOT}/cpu/x/cpu.cfs_period_us": "1"},
    {
        GROUP: "0::/\n7:cpuacct,cpu:/x\n",
        f"{ROOT}/cpu,cpuacct/cpu.cfs_quota_us": "50000",
        f"{ROOT}/cpu,cpuacct/cpu.cfs_period_us": "100000",
    },
]
TWO = {GROUP: "0::/\n", f"{ROOT}/cpu.max": "100001 100000\n"}


@pytest.mark.parametrize(
    ("files", "cpus"), [*((each, CPUS) for each in UNLIMITED), *((each, 1) for each in ONE), (TWO, min(2, CPUS))]
)
def test_threads_are_those_of_the_quota_or_of_the_affinity_mask(tell: Tell, files: dict[str, str], cpus: int) -> None:
    """Parts of a processor count as one."""
    assert tell(files)[0] == cpus


def test_the_affinity_mask_is_obeyed(tell: Tell) -> None:
    assert tell({}, "taskset", "--cpu-list", str(min(os.sched_getaffinity(0))))[0] == 1


QUARTERS, HALF = memory_trees.MACHINE_BYTES // 4 * 3, memory_trees.LIMIT_BYTES // 2


@pytest.mark.parametrize(
    ("files", "memory_bytes"),
    [
        *((files, QUARTERS) for files in (*memory_trees.UNLIMITED.values(), {})),
        *((files, HALF) for files in memory_trees.LIMITED.values()),
    ],
)
def test_devices_have_half_of_the_smallest_limit_or_three_quarters_of_the_machine(
    tell: Tell, files: dict[str, str], memory_bytes: int
) -> None:
    assert tell(files)[1] == memory_bytes
