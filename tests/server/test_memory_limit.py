"""The server refuses to start in less memory than it needs, under both versions of control groups."""

from pathlib import Path

import pytest

from aclgrad_server.faults import StartError
from aclgrad_server.memory_limit import check_memory

FILES = ["memory.max", "memory/memory.limit_in_bytes"]


def write_limit(folder: Path, name: str, told: str) -> None:
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(f"{told}\n")


@pytest.mark.parametrize("name", FILES)
def test_too_little_is_refused_with_both_figures(tmp_path: Path, name: str) -> None:
    write_limit(tmp_path, name, "67108864")
    with pytest.raises(StartError, match=r"64 MiB is less than the 128 MiB .*; give the container more"):
        check_memory(tmp_path)


@pytest.mark.parametrize(
    ("name", "told"),
    [(FILES[0], "134217728"), (FILES[0], "max"), (FILES[1], "134217728"), (FILES[1], "9223372036854771712")],
)
def test_enough_or_no_limit(tmp_path: Path, name: str, told: str) -> None:
    write_limit(tmp_path, name, told)
    check_memory(tmp_path)


def test_machine_without_control_groups(tmp_path: Path) -> None:
    check_memory(tmp_path)
