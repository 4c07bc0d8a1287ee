"""The limit of open files fits the connections, or a warning says by how much it does not."""

import subprocess
import sys

from aclgrad_server.edge.process import OTHER_FILES

PROGRAM = """
import logging, os, resource, sys
from aclgrad_server.edge.process import ensure_open_files
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
for connections, soft, hard in {cases}:
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        ensure_open_files(connections)
        print(resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Each case has a process of its own, because a limit cannot be raised again."""
TOO_LOW = (
    f"WARNING the limit of open files is 400, and 1000 connections need {1000 + OTHER_FILES}; "
    "raise it (ulimit -n, LimitNOFILE)"
)
CASES = {
    (100, OTHER_FILES + 100, 2000): [str(OTHER_FILES + 100)],
    (300, 256, 2000): [str(OTHER_FILES + 300)],
    (1000, 256, 400): [TOO_LOW, "400"],
    (1000, 400, 400): [TOO_LOW, "400"],
}
"""Connections, soft and hard limit; what is logged, and the soft limit afterwards."""


def test_limit_stays_is_raised_or_is_told_to_be_too_low() -> None:
    program = PROGRAM.format(cases=list(CASES))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [line for lines in CASES.values() for line in lines]
