"""The exit codes of `aclgrad`: one table for all commands."""

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """How a command ended."""

    WELL = 0
    WRONG = 1
    UNUSABLE = 2
    SERVER = 3
    INTERRUPTED = 130


MEANINGS: Final = {
    ExitCode.WELL: "all is well; `status`: the servers answered, even with problems",
    ExitCode.WRONG: "a result is wrong, or with `--require-all` one was not judged; "
    "`bench` had a failed call, or found no rate to promise; `doctor` found a fault",
    ExitCode.UNUSABLE: "usage, a file or the request is wrong, or nothing could be judged",
    ExitCode.SERVER: "a server cannot be reached, refuses the caller, or failed (`doctor`: 1)",
    ExitCode.INTERRUPTED: "Ctrl-C; what was found so far is reported",
}
"""As `aclgrad --help` and docs/command-line.md have it."""
