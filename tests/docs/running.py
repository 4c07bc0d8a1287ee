"""Runs blocks of code as a reader would, but against a server of the tests and with stand-ins for what takes long."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.docs import stand_ins
from tests.docs.snippets import ROOT, Snippet
from tools.authority import Authority, write_identities
from tools.serving import Server, clean_environment

LIMIT_S: Final = 240
_EXTRAS: Final = ("torch", "jax")
_RUN_ALL: Final = """
import sys
for path in sys.argv[1:]:
    with open(path) as file:
        exec(compile(file.read(), path, "exec"), {"__name__": "__main__"})
"""


def run(snippets: Sequence[Snippet], server: Server, folder: Path) -> None:
    """Runs the blocks in order in one folder; fails with what a block that failed has printed."""
    environment = _environment(server, folder / "bin")
    work = folder / "work"
    work.mkdir()
    Authority(work).pair("server")
    write_identities(work / "identities.toml", {"trainer": {"token": "a token"}})
    able = [each for each in snippets if not each.needs and _is_installed(each)]
    for language, group in groupby(able, key=lambda each: each.language):
        files = [_written(each, server, folder) for each in group]
        if language == "python":
            # One process for all: most of the time of a short program is its imports.
            _succeed([sys.executable, "-W", "error", "-c", _RUN_ALL, *files], work, environment)
            continue
        for file in files:
            _succeed(["bash", "-eu", "-o", "pipefail", file], work, environment)


def _written(snippet: Snippet, server: Server, folder: Path) -> str:
    """Returns a file with the text, in which the addresses are those of the server."""
    file = folder / snippet.place.replace("/", "_")
    file.write_text(re.sub(r"127\.0\.0\.1:5005[1-3]", server.address, snippet.text))
    return str(file)


def _succeed(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    told = f"{command[-1]}\n{done.stdout}{done.stderr}"
    assert done.returncode == 0, told
    assert "Exception ignored" not in done.stderr, told


def _is_installed(snippet: Snippet) -> bool:
    missing = (extra for extra in _EXTRAS if f"import {extra}" in snippet.text and find_spec(extra) is None)
    return next(missing, None) is None


def _environment(server: Server, programs: Path) -> dict[str, str]:
    """Returns an environment in which each program that has a stand-in is that."""
    programs.mkdir()
    for name in stand_ins.PROGRAMS:
        (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -m {stand_ins.__name__} {name} "$@"\n')
        (programs / name).chmod(0o755)
    assert server.admin is not None
    return clean_environment(
        PATH=f"{programs}{os.pathsep}{os.environ['PATH']}",
        PYTHONPATH=str(ROOT),
        ACLGRAD_ADMIN=server.admin,
        **{stand_ins.TARGET: server.address},
    )
