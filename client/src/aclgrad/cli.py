"""The program `aclgrad`. Its commands need the libraries of extras, which the client itself does without."""

import io
import json
import os
import signal
import sys
from typing import Final

from aclgrad.exit_codes import ExitCode
from aclgrad.extras import libraries_of, remedy_of
from aclgrad.new_files import is_of_output

_LEFT: Final = 1
"""click's exit code if the output's reader has left."""


def main() -> None:
    """Runs a command; exits with 2 if its extra is not installed or its output cannot be written."""
    # Characters that the output's encoding lacks, such as µ, become question marks.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Imports take a moment: Ctrl-C ends them without a traceback.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from aclgrad.commands import program

        signal.signal(signal.SIGINT, handler)
        try:
            program()
        finally:
            print(end="", flush=True)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        # Only some commands need PyTorch; all need the libraries of the other extra.
        extra = next((each for each in ("cli", "torch") if library in libraries_of(each)), None)
        if extra is None:
            raise
        problem = f"{library} is not installed; {remedy_of(extra)}"
        print(f"aclgrad: {problem}", file=sys.stderr)
        if "--json" in sys.argv:
            told = {"type": type(error).__name__, "message": problem}
            print(json.dumps({"error": told, "exit_code": int(ExitCode.UNUSABLE)}))
        sys.exit(ExitCode.UNUSABLE)
    except OSError as error:
        # Commands report all other errors of the system.
        if not is_of_output(error):
            raise
        # The rest of the output is discarded, or Python would fail to write it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(_LEFT)
        print(f"aclgrad: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(ExitCode.UNUSABLE)
