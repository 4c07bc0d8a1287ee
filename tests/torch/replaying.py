"""Runs of `aclgrad replay` on dumps of calls that the tests make."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from click.testing import CliRunner

from aclgrad.commands import program
from tests.torch.dumps import Dump
from tools.serving import Server

GENERATOR = torch.Generator().manual_seed(3)


def drawn(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    return torch.randn(shape, generator=GENERATOR).to(dtype).requires_grad_(grad)


def sample(folder: Path, dtype: torch.dtype = torch.float32, task: str = "tensor", copies: int = 1) -> Path:
    """Returns a dump with one call of several APIs, served or not."""
    dump = Dump(folder, task=task)
    for number in range(copies):
        x = drawn(2, 3, 8, 8, dtype=dtype, grad=True)
        gradient = drawn(2, 3, 4, 4, dtype=dtype) * 1e-4
        dump.record(f"Functional.max_pool2d.{number}", [x, 2], gradient, {"return_indices": True})
        dump.record(f"Functional.pad.{number}", [x, [1, 1]], drawn(2, 3, 8, 10, dtype=dtype), {"mode": "constant"})
        dump.record(f"Functional.avg_pool2d.{number}", [x, 2, 2], gradient)
        dump.record(f"Functional.celu.{number}", [x], drawn(2, 3, 8, 8, dtype=dtype))
        weight, bias = drawn(8, dtype=dtype, grad=True), drawn(8, dtype=dtype, grad=True)
        dump.record(f"Functional.layer_norm.{number}", [x, [8], weight, bias, 1e-5], drawn(2, 3, 8, 8, dtype=dtype))
    return dump.write()


@dataclass(frozen=True)
class Replayed:
    exit_code: int
    output: str
    folder: Path

    @property
    def summary(self) -> dict[str, Any]:
        summary: dict[str, Any] = json.loads((self.folder / "rows.jsonl").read_text().splitlines()[0])["summary"]
        return summary

    def sides(self, side: str) -> dict[str, str]:
        """Returns the verdicts on one side, by calls and tensors: "avg_pool2d.0 gradient of input"."""
        return {
            f"{row['name'].split('.', 1)[1].removesuffix('.backward')} {tensor['name']}": own["verdict"]
            for row in self.rows
            for tensor in row["tensors"]
            if (own := tensor["sides"].get(side))
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        lines = map(json.loads, (self.folder / "rows.jsonl").read_text().splitlines())
        return [line for line in lines if "summary" not in line]

    def table(self, kind: str, folder: str = ".") -> list[list[str]]:
        (path,) = (self.folder / folder).glob(f"accuracy_checking_{kind}_*.csv")
        return list(csv.reader(path.read_text("utf-8-sig").splitlines()[1:]))


def replay(dump: Path, server: Server | str, out: Path, *flags: str) -> Replayed:
    target = server if isinstance(server, str) else server.address
    found = CliRunner().invoke(program, ["replay", str(dump), target, "--out", str(out), *flags])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return Replayed(found.exit_code, found.output, out)
