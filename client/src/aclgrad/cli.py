"""The program `aclgrad`. Its commands need the libraries of extras, which the client itself does without."""

import re
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

        signal.signal(signal.SIGINT, handler)
        program()
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        # PyTorch is for some commands alone; all of them need the libraries of the other extra.
        found = next((each for each in (_libraries("cli"), _libraries("torch")) if library in each), None)
        if found is None:
            raise
        wanted = " ".join(f"'{each}'" for each in found.values())
        print(f"aclgrad: {library} is not installed; run: pip install {wanted}", file=sys.stderr)
        sys.exit(_MISSING)


def _libraries(extra: str) -> dict[str, str]:
    """Returns what an extra requires, by name. The extra has no name for pip, because no index has this package."""
    from importlib.metadata import requires

    required = (each.partition(";") for each in requires("aclgrad") or ())
    wanted = (each.strip() for each, _, marker in required if extra in re.findall(r"extra == ['\"](\w+)['\"]", marker))
    return {re.split(r"[^\w-]", each)[0]: each for each in wanted}
