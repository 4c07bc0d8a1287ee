"""Programs under the names that the documentation calls, which do the same but shorter: python -m ... NAME ARGUMENTS.

`make` only says what it would do, `pip` looks whether there is such a package and extra, an environment has no program,
a server ends as soon as it is ready, and measurements are short. Everything else is the real program.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
INSTALLED: Final = Path(sys.executable).parent
TARGET: Final = "SNIPPETS_TARGET"
"""The variable with the address of the server that `aclgrad` calls by default."""
_REQUIREMENT: Final = re.compile(r"(?P<folder>\./\w+)(\[(?P<extras>\w+(,\w+)*)\])?")
_SHORTER: Final = {
    "check": ["--quick", "--only", "layouts"],
    "compare": ["--quick", "--only", "layer_norm_backward"],
    "bench": ["--seconds", "0.2"],
}
_ENDS: Final = ("--help", "--version", "probe", "doctor", "token")


def make(words: list[str]) -> int:
    # As `make build`, it leaves an environment to activate.
    python3(["-m", "venv", ".venv"])
    command = [shutil.which("make", path=os.defpath) or "make", "-C", str(ROOT), "--dry-run", *words]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode


def pip(words: list[str]) -> int:
    command, *requirements = words
    if command != "install" or not requirements:
        return 2
    for each in requirements:
        found = _REQUIREMENT.fullmatch(each)
        if found is None:
            return 2
        project = tomllib.loads((ROOT / found["folder"] / "pyproject.toml").read_text())["project"]
        if not set((found["extras"] or "").split(",")) <= {"", *project["optional-dependencies"]}:
            return 2
    return 0


def python3(words: list[str]) -> int:
    if words[:2] != ["-m", "venv"]:
        os.execv(sys.executable, [sys.executable, *words])
    (folder,) = map(Path, words[2:])
    # What it would put first in PATH is what `pip` and `aclgrad` are here.
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    (folder / "bin/activate").write_text(f"export VIRTUAL_ENV={folder.absolute()}\n")
    return 0


def aclgrad(words: list[str]) -> int:
    shorter = _SHORTER.get(words[0], []) if words else []
    # A busy machine may not send calls at the rate of a page.
    slower = ["--rate", "20"] if "--rate" in words else []
    command = ["aclgrad", *words, *(shorter[:1] if "--only" in words else shorter), *slower]
    os.execve(INSTALLED / "aclgrad", command, os.environ | {"ACLGRAD_TARGET": os.environ[TARGET]})


def aclgrad_server(words: list[str]) -> int:
    program = str(INSTALLED / "aclgrad-server")
    if words and words[0] in _ENDS:
        # The addresses of its environment are those of a server that runs.
        flags = ["--", "--listen", "127.0.0.1:0", "--admin", "off"] if words == ["doctor"] else []
        os.execv(program, [program, *words, *flags])
    words = [word.replace(":50051", ":0").replace("/run/", "") for word in words]
    addresses = ["--admin", "127.0.0.1:0", *([] if "--listen" in words else ["--listen", "127.0.0.1:0"])]
    server = subprocess.Popen([program, *addresses, *words], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout:
        is_ready = any(line.startswith("ready: ") for line in server.stdout)
    server.send_signal(signal.SIGTERM)
    return server.wait() if is_ready else 1


PROGRAMS: Final[dict[str, Callable[[list[str]], int]]] = {
    "make": make,
    "pip": pip,
    "python3": python3,
    "aclgrad": aclgrad,
    "aclgrad-server": aclgrad_server,
}

if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
