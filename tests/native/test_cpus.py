"""How many threads a device starts and how much memory it has: what the machine and the control groups grant."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import memory_trees, sanitizers

pytestmark = pytest.mark.once

HOST = sanitizers.NATIVE / "host"
CPUS = len(os.sched_getaffinity(0))
PROGRAM = """
#include <cstdio>
#include "settings/cpus.h"
#include "settings/usable_memory.h"
int main(int, char** arguments) {
  std::printf("%d %zu", acl_host::UsableCpus(arguments[1]), acl_host::UsableMemoryBytes(arguments[1]));
}
"""
SOURCES = [str(HOST / f"settings/{name}.cpp") for name in ("control_groups", "cpus", "usable_memory")]
Tell = Callable[[dict[str, str]], tuple[int, int]]
Count = Callable[[dict[str, str]], int]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpus")
    source = folder / "main.cpp"
    source.write_text(PROGRAM)
    words = [sanitizers.COMPILER, "-std=c++17", f"-I{HOST}", str(source), *SOURCES, "-o", str(folder / "main")]
    subprocess.run(words, check=True)
    return folder / "main"


@pytest.fixture
def tell(program: Path, tmp_path: Path) -> Tell:
    """Tells the processors and the memory of a process that sees these files."""

    def run(files: dict[str, str]) -> tuple[int, int]:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        told = subprocess.run([program, tmp_path], capture_output=True, text=True, check=True).stdout
        cpus, memory_bytes = map(int, told.split())
        return cpus, memory_bytes

    return run


@pytest.fixture
def count(tell: Tell) -> Count:
    return lambda files: tell(files)[0]


GROUP = "proc/self/cgroup"
ROOT = "sys/fs/cgroup"


@pytest.mark.parametrize(
    "files",
    [
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
    ],
)
def test_without_a_quota_it_is_the_affinity_mask(count: Count, files: dict[str, str]) -> None:
    assert count(files) == CPUS


@pytest.mark.skipif(CPUS < 2, reason="a quota shows only below the affinity mask")
@pytest.mark.parametrize(
    "files",
    [
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
    ],
)
def test_a_quota_of_one_processor_or_less_is_one_thread(count: Count, files: dict[str, str]) -> None:
    assert count(files) == 1


@pytest.mark.skipif(CPUS < 2, reason="a quota shows only below the affinity mask")
def test_parts_of_a_processor_count_as_one(count: Count) -> None:
    assert count({GROUP: "0::/\n", f"{ROOT}/cpu.max": "100001 100000\n"}) == 2


def test_the_affinity_mask_is_obeyed(program: Path, tmp_path: Path) -> None:
    one = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    assert subprocess.run([*one, program, tmp_path], capture_output=True, text=True, check=True).stdout.startswith("1 ")


@pytest.mark.parametrize("files", [*memory_trees.UNLIMITED.values(), {}], ids=[*memory_trees.UNLIMITED, "nothing"])
def test_without_a_limit_devices_have_three_quarters_of_the_machine(tell: Tell, files: dict[str, str]) -> None:
    assert tell(files)[1] == memory_trees.MACHINE_BYTES // 4 * 3


@pytest.mark.parametrize("files", memory_trees.LIMITED.values(), ids=memory_trees.LIMITED)
def test_devices_have_half_of_the_smallest_limit(tell: Tell, files: dict[str, str]) -> None:
    assert tell(files)[1] == memory_trees.LIMIT_BYTES // 2
