"""Runs of `aclgrad judge` on dumps that the tests record."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner

from aclgrad.commands import program
from tests.torch.judge.recording import Recording


@dataclass(frozen=True)
class Judged:
    exit_code: int
    output: str
    folder: Path

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()]

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = self.lines[0]["summary"]
        return summary

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.lines[1:]

    @property
    def verdicts(self) -> dict[str, str]:
        return {row["name"]: row["verdict"] for row in self.rows}

    @property
    def reasons(self) -> dict[str, str]:
        return {row["name"]: row["message"] for row in self.rows if row["verdict"] == "skipped"}


def judge(dump: Path, out: Path, *flags: str) -> Judged:
    found = CliRunner().invoke(program, ["judge", str(dump), "--out", str(out), *flags])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return Judged(found.exit_code, found.output, out)


def sample(folder: Path) -> Path:
    """Records a step of a small network."""
    torch.manual_seed(7)
    recording = Recording(folder)
    x, target = torch.randn(4, 3, 8, 8, requires_grad=True), torch.tensor([0, 2, 1, 2])
    kernel, weight = torch.randn(6, 3, 3, 3, requires_grad=True), torch.randn(3, 6, requires_grad=True)
    y = recording.call("Functional.conv2d", x, kernel, padding=1)
    y = recording.call("Functional.relu", y)
    y = recording.call("Functional.adaptive_avg_pool2d", y, 1).flatten(1)
    y = recording.call("Functional.linear", y, weight)
    recording.call("Functional.cross_entropy", y, target).backward()
    return recording.write()


def plant(folder: Path, tensor: str, factor: float) -> None:
    """Multiplies a recorded tensor, for example "Functional.conv2d.0.forward.output.0"."""
    path = folder / "dump_tensor_data" / f"{tensor}.pt"
    torch.save(torch.load(path, weights_only=True) * factor, path)
