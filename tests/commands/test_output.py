"""The output of a command that cannot be written: a full disk, a reader that has left, no output at all."""

import json
import subprocess
import sys

from aclgrad.testing import TestServer

COMMANDS = [
    "--help",
    "operators",
    "operators --json --target {target}",
    "status --target {target}",
    "status --json --target {target}",
    "status --watch --target {target}",
    "doctor --target {target}",
    "check {target} --quick --only listing",
    "bench --seconds 0.1 --target {target}",
]
"""Each way to write: click's, a table, JSON, a screen that is watched, rows as they come."""

# One process imports everything once, and a child of it runs each command.
_IN_CHILDREN = """
import json, os, sys
import aclgrad.commands.bench, aclgrad.judge.check.command, aclgrad.commands.doctor, aclgrad.commands.status
from aclgrad.cli import main
way, commands = sys.argv[1], json.loads(sys.argv[2])
for command in commands:
    if not os.fork():
        if way == "full":
            os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        else:
            reader, writer = os.pipe()
            os.dup2(writer, 1)
            os.close(reader)
        sys.argv = ["aclgrad", *command.split()]
        main()
        os._exit(0)
    _, status = os.wait()
    print(f"{command}: exit {os.waitstatus_to_exitcode(status)}", file=sys.stderr, flush=True)
"""


def ends(way: str, commands: list[str]) -> list[str]:
    """Returns what is told of each command, and its exit code, in lines."""
    run = [sys.executable, "-c", _IN_CHILDREN, way, json.dumps(commands)]
    return subprocess.run(run, capture_output=True, text=True, check=True, timeout=100).stderr.splitlines()


def test_a_full_disk_is_one_line_and_exit_code_2(testing: TestServer) -> None:
    commands = [each.format(target=testing.target) for each in COMMANDS]
    told = "aclgrad: the output cannot be written: No space left on device"
    assert ends("full", commands) == [line for each in commands for line in (told, f"{each}: exit 2")]


def test_a_reader_that_leaves_is_no_error_to_speak_of(testing: TestServer) -> None:
    commands = ["operators", f"doctor --json --target {testing.target}"]
    assert ends("left", commands) == [f"{each}: exit 1" for each in commands]


def test_no_output_at_all() -> None:
    program = [sys.executable, "-c", "from aclgrad.cli import main; main()", "operators"]
    closed = ["sh", "-c", 'exec "$0" "$@" >&-', *program]
    assert subprocess.run(closed, capture_output=True, text=True, check=True, timeout=100).stderr == ""
