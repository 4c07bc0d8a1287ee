"""The output of a command that cannot be written: a full disk, a reader that has left, no output at all."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aclgrad.testing import TestServer

PROGRAM = [sys.executable, "-c", "from aclgrad.cli import main; main()"]
CALL = "call adaptive_avg_pool2d_backward input=3,4,4 grad_output={grad}"
COMMANDS = {
    "version": "--version",
    "help": "--help",
    "operators": "operators",
    "operator": "operators avg_pool2d_backward",
    "operators as JSON": "operators --json --target {target}",
    "call": CALL + " --target {target}",
    "call as JSON": CALL + " --json --target {target}",
    "status": "status --target {target}",
    "status as JSON": "status --json --target {target}",
    "watched": "status --watch --target {target}",
    "doctor": "doctor --target {target}",
    "doctor as JSON": "doctor --json --target {target}",
    "check": "check {target} --quick --only listing",
    "compare": "compare {target} {target} --quick --only avg_pool2d_backward",
    "bench": "bench --seconds 0.1 --target {target}",
    "bench as JSON": "bench --seconds 0.1 --json --target {target}",
}


@pytest.fixture
def words(tmp_path: Path, testing: TestServer) -> dict[str, str]:
    np.save(tmp_path / "grad.npy", np.ones((3, 2, 2), np.float32))
    return {"grad": str(tmp_path / "grad.npy"), "target": testing.target}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_full_disk_is_one_line_and_exit_code_2(words: dict[str, str], command: str) -> None:
    with open("/dev/full", "w") as full:
        run = [*PROGRAM, *command.format_map(words).split()]
        finished = subprocess.run(run, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=100)
    assert finished.stderr == "aclgrad: the output cannot be written: No space left on device\n"
    assert finished.returncode == 2


@pytest.mark.parametrize("command", ["operators", "doctor --json --target {target}"])
def test_a_reader_that_leaves_is_no_error_to_speak_of(words: dict[str, str], command: str) -> None:
    run = [*PROGRAM, *command.format_map(words).split()]
    with subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as left:
        assert left.stdout is not None
        left.stdout.close()
        _, told = left.communicate(timeout=100)
    assert (left.returncode, told) == (1, "")


def test_no_output_at_all() -> None:
    closed = ["sh", "-c", 'exec "$0" "$@" >&-', *PROGRAM, "operators"]
    assert subprocess.run(closed, capture_output=True, text=True, check=True, timeout=100).stderr == ""
