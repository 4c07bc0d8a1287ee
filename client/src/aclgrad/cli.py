"""The program `aclgrad`. Its commands need the libraries of extras, which the client itself does without."""

import io
import signal
import sys
from typing import Final

from aclgrad.extras import libraries_of

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
        found = next((each for each in (libraries_of("cli"), libraries_of("torch")) if library in each), None)
        if found is None:
            raise
        wanted = " ".join(f"'{each}'" for each in found.values())
        print(f"aclgrad: {library} is not installed; run: pip install {wanted}", file=sys.stderr)
        sys.exit(_MISSING)
