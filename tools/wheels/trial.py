"""`python -m tools.wheels.trial python3.12 python3.14` tries the wheels on other Pythons, each in an empty environment.

It runs the tests of client and server on wheels of the interpreter's own.
"""

import os
import subprocess
import sys
from typing import Final

from tools.wheels.__main__ import ROOT

BUILD: Final = ROOT / "build/pythons"
CLIENT: Final = ("tests/client", "tests/testing", "tests/commands")
SERVER: Final = ("tests/server", "tests/e2e/operators", "tests/e2e/chunks")
LOCKED: Final = ("--constraint", "requirements.lock")


def try_interpreter(python: str) -> bool:
    """Builds the wheels, installs them and says whether the tests pass."""
    folder = BUILD / python.strip("/").replace("/", "-")
    wheels, own = folder / "wheels", folder / "venv/bin/python"
    _run(sys.executable, "-m", "tools.wheels", str(wheels), "--pythons", python)
    _run(python, "-m", "venv", "--clear", "--without-pip", str(folder / "venv"))
    client, *others = sorted(map(str, wheels.glob("*.whl")))
    install = (sys.executable, "-m", "pip", "--python", str(own), "install", "--quiet", "--only-binary", ":all:")
    _run(*install, *LOCKED, f"{client}[cli]", *others, "--group", "test")
    marks = ("-m", "not slow and not alone", "--numprocesses", str(min(os.cpu_count() or 1, 3)), "--dist", "loadfile")
    command = [str(own), "-m", "pytest", "-p", "no:cacheprovider", *marks, *CLIENT, *SERVER]
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> int:
    results = {}
    for each in sys.argv[1:]:
        try:
            results[each] = try_interpreter(each)
        except subprocess.CalledProcessError:
            results[each] = False  # the command has said why
    print("\n".join(f"{each} {'passes the tests' if passed else 'FAILED'}" for each, passed in results.items()))
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
