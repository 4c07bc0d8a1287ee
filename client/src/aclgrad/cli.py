"""The program `aclgrad`. Its commands need the libraries of the extra `cli`, which the client itself does without."""

import signal
import sys
from typing import Final

_MISSING: Final = 2


def main() -> None:
    """Runs a command; exits with 2 and names the remedy if the extra is not installed."""
    # Imports take a moment: Ctrl-C ends them without a traceback.
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from aclgrad.commands import program
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in ("click", "rich", "jinja2", "safetensors"):
            raise
        print(f"aclgrad: {library} is not installed; run: pip install 'aclgrad[cli]'", file=sys.stderr)
        sys.exit(_MISSING)
    signal.signal(signal.SIGINT, handler)
    program()
