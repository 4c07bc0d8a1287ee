"""Runs of `aclgrad judge` and `aclgrad replay` on dumps that the tests record."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner

from aclgrad.commands import program
from tests.judge.torch.recording import Recording
from tools.serving import Server

GENERATOR = torch.Generator().manual_seed(3)


@dataclass(frozen=True)
class Ran:
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
        return [line for line in self.lines if "summary" not in line]

    @property
    def verdicts(self) -> dict[str, str]:
        return {row["name"]: row["verdict"] for row in self.rows}

    @property
    def reasons(self) -> dict[str, str]:
        return {row["name"]: row["message"] for row in self.rows if row["verdict"] == "skipped"}

    def sides(self, side: str) -> dict[str, str]:
        """Returns the verdicts on one side, by calls and tensors: "avg_pool2d.0 gradient of input"."""
        return {
            f"{row['name'].split('.', 1)[1].removesuffix('.backward')} {tensor['name']}": own["verdict"]
            for row in self.rows
            for tensor in row["tensors"]
            if (own := tensor["sides"].get(side))
        }

    def gradients(self, side: str) -> dict[str, str]:
        """Returns the verdicts of gradients alone."""
        return {name: verdict for name, verdict in self.sides(side).items() if " gradient of " in name}

    def table(self, kind: str, folder: str = ".") -> list[list[str]]:
        (path,) = (self.folder / folder).glob(f"accuracy_checking_{kind}_*.csv")
        return list(csv.reader(path.read_text("utf-8-sig").splitlines()[1:]))


def judge(dump: Path, out: Path, *flags: str) -> Ran:
    return _ran(["judge", str(dump)], out, flags)


def replay(dump: Path, server: Server | str, out: Path, *flags: str) -> Ran:
    return _ran(["replay", str(dump), server if isinstance(server, str) else server.address], out, flags)


def _ran(words: list[str], out: Path, flags: tuple[str, ...]) -> Ran:
    found = CliRunner().invoke(program, [*words, "--out", str(out), *flags])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return Ran(found.exit_code, found.output, out)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR).to(dtype).requires_grad_(grad)


def sample(folder: Path, dtype: torch.dtype = torch.float32, task: str = "tensor", copies: int = 1) -> Path:
    """Returns a dump with one call of several APIs, served or not."""
    recording = Recording(folder, task=task)
    for _ in range(copies):
        x = drawn(2, 3, 8, 8, dtype=dtype, grad=True)
        gradient, alike = drawn(2, 3, 4, 4, dtype=dtype) * 1e-4, drawn(2, 3, 8, 8, dtype=dtype)
        recording.differentiate(gradient, "Functional.max_pool2d", x, 2, return_indices=True)
        recording.differentiate(drawn(2, 3, 8, 10, dtype=dtype), "Functional.pad", x, [1, 1], mode="constant")
        recording.differentiate(gradient, "Functional.avg_pool2d", x, 2, 2)
        recording.differentiate(alike, "Torch.erf", x)
        weight, bias = drawn(8, dtype=dtype, grad=True), drawn(8, dtype=dtype, grad=True)
        recording.differentiate(alike, "Functional.layer_norm", x, [8], weight, bias, 1e-5)
    return recording.write()


def step(folder: Path) -> Path:
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
