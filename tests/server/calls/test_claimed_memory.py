"""A process takes little more for a call than admission has counted: see claimed_memory.py."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# The C library returns blocks of this size at once, so nothing is left that the next one would fit into.
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536"}


@pytest.mark.parametrize("cells", [0, pytest.param(2**20, marks=[pytest.mark.slow, pytest.mark.long])])
@pytest.mark.parametrize(
    "host",
    [
        {"product": "910A"},
        {"product": "910A", "host_pointers": False},
        {"product": "910B", "host_pointers": False, "workspace_percent": 50},
    ],
    ids=["in place", "copied", "workspaces"],
)
def test_a_process_grows_by_what_was_counted(tmp_path: Path, host: dict[str, Any], cells: int) -> None:
    """Masks of few bytes of indices, and with cells the long calls of every operator too."""
    command = [sys.executable, "-m", "tests.server.calls.claimed_memory", str(tmp_path), json.dumps(host), str(cells)]
    done = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    *excesses, count = done.stdout.splitlines()
    assert excesses == []
    assert int(count) > (200 if cells else 1)
