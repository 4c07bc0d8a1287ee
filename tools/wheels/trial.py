"""`python -m tools.wheels.trial python3.12 3.14` tries the wheels on other Pythons, each in an empty environment.

An interpreter runs the tests of client and server on wheels of its own. A bare version has no interpreter here: it is
only looked up whether every package that is needed has a wheel for it.
"""

import os
import re
import subprocess
import sys
import tempfile
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


def resolve(version: str) -> bool:
    """Says whether every package that a server needs has a wheel for the version."""
    command = [sys.executable, "deploy/dependencies.py"]
    needed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--target", folder]
        wanted = ["--python-version", version, "--only-binary", ":all:", *needed.splitlines()]
        return subprocess.run([*pip, *wanted], cwd=ROOT, check=False).returncode == 0


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> int:
    results = {}
    for each in sys.argv[1:]:
        is_version = re.fullmatch(r"\d+\.\d+t?", each) is not None
        try:
            passed = resolve(each) if is_version else try_interpreter(each)
        except subprocess.CalledProcessError:
            passed = False  # the command has said why
        about = "has a wheel of every package" if is_version else "passes the tests"
        results[f"{each} {about}" if passed else f"{each} FAILED"] = passed
    print("\n".join(results))
    return 0 if results and all(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
