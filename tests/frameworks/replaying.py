"""Dumps of the real msprobe, replays of them, and what its own check says of them."""

import csv
import importlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner

from aclgrad.commands import program
from tests.frameworks.msprobe_oracle import ask
from tools.benchmarks import torchvision_kernel
from tools.serving import Server

Details = dict[str, dict[str, str]]


def dump_steps(folder: Path, config: dict[str, Any]) -> None:
    """Has msprobe write a dump; see `tests.frameworks.dumping`.

    Its RoI align is torchvision's, so the error of PyTorch's own run in 16 bits has to be its error.
    """
    command = [sys.executable, "-m", "tests.frameworks.dumping", str(folder), json.dumps(config)]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    with tempfile.TemporaryDirectory() as stubs:
        if not hasattr(torch.ops.torchvision, "roi_align"):
            torchvision_kernel.load(Path(stubs))
            importlib.import_module("torchvision")


def replay(server: Server, dump: Path, out: Path, exit_code: int = 0) -> Path:
    arguments = ["replay", str(dump), server.address, "--out", str(out), "--local", "cpu"]
    done = CliRunner().invoke(program, arguments, catch_exceptions=False)
    assert done.exit_code == exit_code, done.output[-3000:]
    return out


def judged_rows(folder: Path) -> list[dict[str, Any]]:
    """Returns the rows of a run, without its summary."""
    lines = map(json.loads, (folder / "rows.jsonl").read_text().splitlines())
    return [line for line in lines if "summary" not in line]


def details_of(folder: Path, step: str = "") -> Path:
    """Returns the details of the server's side."""
    tables = (folder / step).rglob("accuracy_checking_details_*.csv")
    (found,) = (each for each in tables if each.parent.name != "local")
    return found


def rows_of(path: Path, key: str = "API Name") -> Details:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return {row[key]: row for row in csv.DictReader(file)}


def acc_check(dump: Path, step: str) -> Path:
    """Returns the details that msprobe's own check writes for a step."""
    (path,) = (dump / step).glob("proc*/dump.json")
    out = dump.parent / f"acc_check_{step}"
    run = [sys.executable, "-m", "tests.frameworks.acc_check", "-api_info", str(path), "-o", str(out)]
    subprocess.run(run, check=True, capture_output=True, timeout=300)
    (found,) = out.glob("accuracy_checking_details_*.csv")
    return found


def judged(details: Details) -> Details:
    return {name: row for name, row in details.items() if row["Status"] != "SKIP"}


def compared(npu: Path, gpu: Path, folder: Path) -> dict[str, str]:
    """Returns msprobe's verdicts on one side beside another, by the names of the gradients."""
    (folder / "local").mkdir(parents=True)
    shutil.copy(npu, folder / "details.csv")
    shutil.copy(gpu, folder / "local" / "details.csv")
    ask("compare", folder / "details.csv", folder / "compared")
    (found,) = (folder / "compared").glob("*details*.csv")
    return {name: row["比对结果"] for name, row in rows_of(found).items()}
