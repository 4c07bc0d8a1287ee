"""`aclgrad check --msprobe` with the real msprobe: acc_check makes the dump's calls, and the tables are compared."""

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from aclgrad.judge.check import target
from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from tests.frameworks.replaying import compared
from tools.serving import Server

Verdicts = dict[str, str]


@dataclass(frozen=True)
class Sides:
    """The details of the server and those of PyTorch on the CPU, which acc_check made."""

    folder: Path
    ours: Path
    theirs: Path


def first_of_every_dtype(product: Product) -> Iterator[TypedCase]:
    return first_cases(product, every_dtype=True)


def details_of(folder: Path) -> Path:
    (path,) = folder.glob("*details*.csv")
    return path


def column(path: Path, name: str) -> Verdicts:
    """Returns the cells of a column, by the names of the rows."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row["API Name"]: row[name] for row in csv.DictReader(file)}


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Sides:
    folder = tmp_path_factory.mktemp("check")
    with pytest.MonkeyPatch.context() as patch, Server() as server:
        patch.setattr(target, "typed_cases", first_of_every_dtype)
        arguments = ["check", server.address, "--quick", "--only", "accuracy", "--msprobe", str(folder / "ours")]
        result = CliRunner().invoke(program, arguments)
    assert result.exit_code == 0, result.output
    command = ["-m", "tests.frameworks.acc_check", "-api_info", folder / "ours/dump.json", "-o", folder / "theirs"]
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr[-2000:]
    return Sides(folder, details_of(folder / "ours"), details_of(folder / "theirs"))


def gradients(verdicts: Verdicts) -> Verdicts:
    return {name: verdict for name, verdict in verdicts.items() if ".backward." in name}


def test_acc_check_makes_every_call_of_the_dump(sides: Sides) -> None:
    """It has the gradients that we have, of the same dtypes and shapes, and skips none of them."""
    calls = {name.rpartition(".")[0] for name in json.loads((sides.folder / "ours/dump.json").read_text())["data"]}
    ours, theirs = column(sides.ours, "Status"), column(sides.theirs, "Status")
    assert {name.rpartition(".backward.")[0] for name in theirs if ".backward." in name} == calls
    judged = {name for name, status in ours.items() if status != "SKIP"}
    assert judged == {name for name, status in theirs.items() if status != "SKIP" and ".backward." in name}
    for title in ("Bench Dtype", "DEVICE Dtype", "Shape"):
        found = column(sides.theirs, title)
        assert {name: column(sides.ours, title)[name] for name in judged} == {name: found[name] for name in judged}


def test_the_server_passes_beside_pytorch(sides: Sides, tmp_path: Path) -> None:
    verdicts = gradients(compared(sides.ours, sides.theirs, tmp_path))
    dtypes, statuses = column(sides.ours, "DEVICE Dtype"), column(sides.ours, "Status")
    # msprobe compares no float64.
    judged = {name for name, status in statuses.items() if status != "SKIP" and dtypes[name] != "torch.float64"}
    assert {dtypes[name] for name in judged} == {"torch.float32", "torch.float16", "torch.bfloat16"}
    assert {name: verdicts[name] for name in judged} == dict.fromkeys(judged, "pass")
    assert set(verdicts[name] for name in verdicts.keys() - judged) == {"SKIP"}
