"""The limit of open files fits the connections, or a warning says by how much it does not."""

import subprocess
import sys

import pytest

from aclgrad_server.edge.process import OTHER_FILES

PROGRAM = """
import logging, resource
resource.setrlimit(resource.RLIMIT_NOFILE, {limits})
from aclgrad_server.edge.process import ensure_open_files
logging.basicConfig(format="%(levelname)s %(message)s")
ensure_open_files({connections})
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def run(connections: int, soft: int, hard: int) -> tuple[int, str]:
    """Returns the soft limit and the log of a process of its own, because a limit cannot be raised again."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(connections=connections, limits=(soft, hard))],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return int(done.stdout), done.stderr


def test_limit_that_is_enough_stays() -> None:
    assert run(connections=100, soft=OTHER_FILES + 100, hard=2000) == (OTHER_FILES + 100, "")


def test_soft_limit_is_raised_as_far_as_needed() -> None:
    assert run(connections=300, soft=256, hard=2000) == (OTHER_FILES + 300, "")


@pytest.mark.parametrize("soft", [256, 400])
def test_hard_limit_that_is_too_low_is_told_with_both_figures(soft: int) -> None:
    limit, log = run(connections=1000, soft=soft, hard=400)
    assert limit == 400
    assert log == (
        f"WARNING the limit of open files is 400, and 1000 connections need {1000 + OTHER_FILES}; "
        "raise it (ulimit -n, LimitNOFILE)\n"
    )
