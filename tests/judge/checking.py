"""Runs `aclgrad check` and `aclgrad compare`, on the first cases of a few operators, and reads what they wrote."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from aclgrad.commands import program as aclgrad
from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product

AVERAGE, AVG_POOL = "adaptive_avg_pool2d_backward", "avg_pool2d_backward"
NORM, PAD, ROI = "layer_norm_backward", "replication_pad2d_backward", "roi_align_v2_backward"
BATCH_NORM, MASKED = "batch_norm_backward", "max_pool2d_with_mask_backward"
UNPOOL, SOFTMAX = "max_unpool2d_backward", "softmax_backward"
FEW = [AVERAGE, AVG_POOL, BATCH_NORM, NORM, MASKED, UNPOOL, PAD, ROI, SOFTMAX]
"""What is made of the rows of these is made of those of all."""


def few_cases(product: Product, *, every_dtype: bool = False) -> Iterator[TypedCase]:
    return (each for each in first_cases(product, every_dtype=every_dtype) if each.spec.name in FEW)


@dataclass(frozen=True)
class Checked:
    """A finished run."""

    exit_code: int
    output: str
    rows: list[dict[str, Any]]
    summary: dict[str, Any]

    def verdicts(self, check: str) -> set[str]:
        return {row["verdict"] for row in self.rows if row["check"] == check}

    def notable(self) -> dict[str, dict[str, Any]]:
        """Returns the rows that did not pass, by operator."""
        return {row["operator"]: row for row in self.rows if row["verdict"] != "passed"}


def check(folder: Path, *arguments: str, only: Sequence[str] = ()) -> Checked:
    """Runs the quick form, or these checks of it, with a file of rows in the folder."""
    chosen = [word for name in only for word in ("--only", name)]
    return judged("check", folder, "--quick", *chosen, *arguments)


def compare(folder: Path, a: str, b: str, *arguments: str) -> Checked:
    """Runs the quick form, with a file of rows in the folder."""
    return judged("compare", folder, a, b, "--quick", *arguments)


def judged(command: str, folder: Path, *arguments: str) -> Checked:
    """Runs a command that judges, with a file of rows in the folder."""
    path = folder / "rows.jsonl"
    path.unlink(missing_ok=True)
    result = CliRunner().invoke(aclgrad, [command, "--rows", str(path), *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Checked(result.exit_code, result.output, *read(path))


def read(path: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if "summary" not in line], next((x["summary"] for x in lines if "summary" in x), {})
