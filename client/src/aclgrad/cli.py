"""The program `aclgrad`. Its commands need the libraries of extras, which the client itself does without."""

import io
import signal
import sys
from typing import Final

from aclgrad.extras import libraries_of, remedy_of

_MISSING: Final = 2


def main() -> None:
    """Runs a command; exits with 2 and names the remedy if the extra is not installed."""
    # What the output's encoding lacks, such as µ, is a question mark and no error.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    # Imports take a moment: Ctrl-C ends them without a traceback.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from aclgrad.commands import program

        signal.signal(signal.SIGINT, handler)
        program()
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        # PyTorch is for some commands alone; all of them need the libraries of the other extra.
        extra = next((each for each in ("cli", "torch") if library in libraries_of(each)), None)
        if extra is None:
            raise
        print(f"aclgrad: {library} is not installed; {remedy_of(extra)}", file=sys.stderr)
        sys.exit(_MISSING)
