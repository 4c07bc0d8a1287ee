"""The examples of `aclgrad` alone, and the commands for dumps: their exit codes and their object."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import aclgrad
from aclgrad.commands import program
from aclgrad.commands.group import OVERVIEW
from aclgrad.testing import serve
from tests.judge.torch.running import sample
from tools.serving import Server

EXAMPLES = [line.strip() for line in OVERVIEW.splitlines() if line.startswith("  ")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Has what the examples name: a dump, and an array."""
    sample(tmp_path / "dump")
    np.save(tmp_path / "g.npy", np.ones((3, 2, 2), np.float32))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", [each for each in EXAMPLES if each.startswith("aclgrad ")])
def test_each_command_of_the_overview_works(folder: Path, command: str) -> None:
    # The check has a case for every operator and dtype.
    words = [*command.split()[1:], *(["--only", "listing"] if " check " in command else [])]
    with serve() as server:
        done = CliRunner().invoke(program, words, env={"ACLGRAD_TARGET": server.target})
    assert done.exit_code == 0, done.output


def test_the_lines_of_python_of_the_overview_work(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACLGRAD_TARGET", server.address)
    monkeypatch.setattr(aclgrad, "Client", aclgrad.Client.from_env)
    model = nn.Linear(3, 2)
    names: dict[str, Any] = {
        "model": model,
        "loss_function": lambda model, images, labels: nn.functional.cross_entropy(model(images), labels),
    }
    exec("\n".join(each for each in EXAMPLES if not each.startswith("aclgrad ")), names)
    names["step"](torch.randn(4, 3), torch.randint(2, (4,)))
    assert model.weight.grad is not None


ENDS = {
    "judge dump": 0,
    "judge dump --api avg_pool3d": 2,
    "judge empty": 2,
    "judge nothing": 2,
    "judge": 2,
    "replay dump --out new": 0,
    "replay dump 127.0.0.1:1 --out new": 3,
    "replay empty --out new": 2,
}


@pytest.mark.parametrize(("command", "code"), ENDS.items(), ids=ENDS)
def test_the_commands_for_dumps_end_by_the_table_and_print_one_object(folder: Path, command: str, code: int) -> None:
    (folder / "empty").mkdir()
    with serve() as server:
        environment = {"ACLGRAD_TARGET": server.target, "ACLGRAD_CONNECT_TIMEOUT_S": "0"}
        done = CliRunner().invoke(program, [*command.split(), "--json"], env=environment)
    told = json.loads(done.stdout)
    assert (done.exit_code, told["exit_code"]) == (code, code), done.output
    if code == 0:
        assert (len(told["rows"]), told["passed"], done.stderr) == (told["calls"], told["judged"], "")
        assert ("report: new/report.html" in told["notes"]) == ("--out" in command)
    else:
        assert told["error"]["message"] in done.stderr
