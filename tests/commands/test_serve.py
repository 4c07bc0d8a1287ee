"""`aclgrad serve` is `aclgrad-server`, if that is installed."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

from aclgrad.commands import program


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ([], []),
        (["--help"], ["--help"]),
        (["--listen", "127.0.0.1:0", "--workers=2"], ["--listen", "127.0.0.1:0", "--workers=2"]),
        (["doctor", "--", "--streams", "8"], ["doctor", "--", "--streams", "8"]),
    ],
)
def test_it_becomes_the_server_with_all_arguments(
    monkeypatch: pytest.MonkeyPatch, words: list[str], given: list[str]
) -> None:
    became: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("aclgrad.commands.serve.find_spec", lambda name: name)
    monkeypatch.setattr(os, "execv", lambda path, command: became.append((path, command)))
    assert CliRunner().invoke(program, ["serve", *words]).exit_code == 0
    assert became == [(sys.executable, [sys.executable, "-P", "-m", "aclgrad_server", *given])]


def test_without_a_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclgrad.commands.serve.find_spec", lambda name: None)
    done = CliRunner().invoke(program, ["serve", "--listen", "127.0.0.1:0"])
    assert done.exit_code == 2
    assert done.output.startswith("aclgrad serve: aclgrad-server is not installed; ")
    assert "pip install ./native ./server" in done.output


def test_it_is_the_server_of_this_environment(tmp_path: Path) -> None:
    """A module of the working directory is not taken for it."""
    (tmp_path / "aclgrad_server.py").write_text("print('another')")
    command = [sys.executable, "-P", "-c", "from aclgrad.cli import main; main()", "serve", "--version"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() in (version("aclgrad"), "")
    assert done.returncode == (0 if done.stdout else 2)
