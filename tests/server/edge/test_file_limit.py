"""The limit of open files fits the connections, a warning says by how much it does not, or there is no start."""

import subprocess
import sys

from aclgrad_server.edge.process import OTHER_FILES

PROGRAM = """
import logging, os, resource, sys
from aclgrad_server.edge.process import ensure_open_files
from aclgrad_server.exits import StartError
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
for connections, soft, hard in {cases}:
    if not (child := os.fork()):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        try:
            connections = ensure_open_files(connections)
            print(connections, "of", resource.getrlimit(resource.RLIMIT_NOFILE)[0], flush=True)
        except StartError as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""
"""Each case has a process of its own, because a limit cannot be raised again."""
TOO_LOW = (
    f"WARNING the limit of open files is 1000, and 1000 connections need {1000 + OTHER_FILES}; "
    "raise it (ulimit -n, LimitNOFILE)"
)
REFUSED = (
    "the limit of open files is 768, and the server needs at least 769; "
    "raise it (ulimit -n, LimitNOFILE, docker run --ulimit)"
)
CASES = {
    (100, OTHER_FILES + 100, 2000): ["100 of 868"],
    (300, 256, 2000): ["300 of 1068"],
    (1000, 256, 1000): [TOO_LOW, "232 of 1000"],
    (1000, 1000, 1000): [TOO_LOW, "232 of 1000"],
    (1, 256, 768): [REFUSED],
}
"""Connections, soft and hard limit; what is logged, and connections and soft limit, or why there is no start."""


def test_limit_stays_or_is_raised_or_is_too_low() -> None:
    program = PROGRAM.format(cases=list(CASES))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == [line for lines in CASES.values() for line in lines]
