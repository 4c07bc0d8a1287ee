"""The end of a process: written out, with its code, and without what libraries do at the end, unless they report."""

import subprocess
import sys

import pytest

from tests.sanitizers import RUNTIMES, runtime_of

ENDING = """
import atexit, logging, sys
from aclgrad_server.exits import leave
atexit.register(print, "at the end")
sys.stdout.write("half a line")
leave(int(sys.argv[1]))
"""


def end_with(code: int, **variables: str) -> tuple[int, str]:
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(code)],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout


@pytest.mark.parametrize("code", [0, 4])
def test_what_is_written_arrives_and_nothing_runs_afterwards(code: int) -> None:
    assert end_with(code) == (code, "half a line")


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_with_a_sanitizer_the_end_is_an_ordinary_one(sanitizer: str) -> None:
    preloaded = {"LD_PRELOAD": runtime_of(RUNTIMES[sanitizer]), "ASAN_OPTIONS": "detect_leaks=0"}
    assert end_with(0, **preloaded) == (0, "half a lineat the end\n")
