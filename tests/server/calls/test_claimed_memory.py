"""A process takes little more for a call than admission has counted: see claimed_memory.py."""

import os
import subprocess
import sys
from pathlib import Path

# The C library returns blocks of this size at once, so nothing is left that the next one would fit into.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def test_a_process_grows_by_what_was_counted(tmp_path: Path) -> None:
    """For masks of few bytes of indices."""
    command = [sys.executable, "-m", "tests.server.calls.claimed_memory", str(tmp_path)]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
