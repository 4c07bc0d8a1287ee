"""`aclgrad serve` is `aclgrad-server`, if that is installed."""

import os
import sys

import pytest
from click.testing import CliRunner

from aclgrad.commands import program


@pytest.mark.parametrize("words", [[], ["--help"], ["--listen", "127.0.0.1:0"], ["doctor", "--", "--streams", "8"]])
def test_it_becomes_the_server_of_this_environment_with_all_arguments(
    monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """With -P, a module of the working directory is not taken for it."""
    became: list[tuple[str, list[str]]] = []
    monkeypatch.setattr("aclgrad.commands.find_spec", lambda name: name)
    monkeypatch.setattr(os, "execv", lambda path, command: became.append((path, command)))
    assert CliRunner().invoke(program, ["serve", *words]).exit_code == 0
    assert became == [(sys.executable, [sys.executable, "-P", "-m", "aclgrad_server", *words])]


def test_without_a_server_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclgrad.commands.find_spec", lambda name: None)
    done = CliRunner().invoke(program, ["serve", "--listen", "127.0.0.1:0"])
    assert done.exit_code == 2
    assert done.output.startswith("aclgrad serve: aclgrad-server is not installed; ")
    assert "pip install ./native ./server" in done.output
