"""The folder of `--msprobe`: the calls of the accuracy check as a dump, and its rows as acc_check's tables."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from aclgrad.judge.bundles import BundledCall
from aclgrad.judge.check.selection import Selection
from aclgrad.judge.check.target import CheckError
from aclgrad.judge.findings.rows import Row, Verdict
from aclgrad.judge.msprobe import cells
from aclgrad.judge.msprobe.calls import ApiCall
from aclgrad.judge.msprobe.exported import DUMP, Exported, exported, write_dump
from aclgrad.judge.msprobe.tables import Tables, is_readable
from aclgrad.operators.cases import typed_cases
from aclgrad.products import Product


def check_unused(folder: Path) -> None:
    """Raises CheckError for a folder with anything in it: msprobe would take the files of two runs for one's."""
    if folder.is_dir() and any(folder.iterdir()):
        raise CheckError(f"{folder} is not empty, and two runs would be mixed; name a new folder")


class Exports:
    """A dump and a pair of tables for each server: of several, each has a folder within the folder."""

    def __init__(self, folder: Path, selections: Sequence[Selection]) -> None:
        """Makes the folders and writes the dumps; raises OSError if that cannot be done."""
        self._exports = {
            each.target.origin: _Export.start(folder if len(selections) == 1 else folder / _name(each), each)
            for each in selections
        }

    def take(self, row: Row, call: BundledCall | None) -> None:
        """Writes a row about accuracy; there is no call if it failed. Raises OSError."""
        if row.check == "accuracy":
            self._exports[row.origin].take(row, call)

    def told(self) -> Iterator[str]:
        """Yields the lines that say what was written, and how to make the same calls on a GPU."""
        for origin, export in self._exports.items():
            yield from export.told(origin.target)


@dataclass(frozen=True, slots=True)
class _Export:
    """The part of one server."""

    folder: Path
    product: Product
    tables: Tables
    cases: Mapping[tuple[str, str, str], Exported]
    """By operator, dtype and name of the row."""
    calls: int
    without_pytorch: int
    """The calls that the dump lacks because PyTorch is not installed."""

    @classmethod
    def start(cls, folder: Path, selection: Selection) -> Self:
        product, judged = selection.target.product, list(selection.named())
        # Quick runs and others have the same names for the same calls.
        table = {str(each): each for each in (*typed_cases(product), *(typed for _, typed in judged))}
        named = {str(each.typed): each for each in exported(table.values())}
        cases = {(typed.spec.name, typed.dtype, name): named[str(typed)] for name, typed in judged}
        folder.mkdir(parents=True, exist_ok=True)
        calls, without_pytorch = write_dump(folder, cases.values())
        return cls(folder, product, Tables.start(folder), cases, calls, without_pytorch)

    def take(self, row: Row, call: BundledCall | None) -> None:
        case = self.cases[row.operator, row.dtype, row.case]
        if case.refusal:
            rows = [cells.skipped(case.refusal)]
        elif call is None:
            rows = [cells.skipped(row.message)]
        else:
            rows = list(_compared(case.call(), call))
        about = f"{row.operator} {row.case} on {self.product}."
        if call and row.verdict is not Verdict.PASSED:
            about += f" aclgrad check: {row.message}."
        self.tables.write(case.name, [replace(each, message=f"{about} {each.message}") for each in rows])

    def told(self, target: str) -> Iterator[str]:
        folder, tables = shlex.quote(str(self.folder)), shlex.quote(str(self.tables.details))
        yield f"{folder} has the gradients of {target}, and {self.calls} of the calls for a GPU; copy it there and run:"
        yield f"  msprobe acc_check -api_info {folder}/{DUMP} -o {folder}/gpu"
        theirs = f"{folder}/gpu/accuracy_checking_details_*.csv"
        yield f"  msprobe api_precision_compare -npu {tables} -gpu {theirs} -o {folder}/compared"
        if self.without_pytorch:
            yield f"{self.without_pytorch} calls of bfloat16 are not among them: install PyTorch here, which writes it"
        if not is_readable(self.folder):
            yield f"msprobe refuses the path {self.folder.resolve()}: take one of letters, digits and _.- for the copy"


def _compared(exported: ApiCall, judged: BundledCall) -> Iterator[cells.Row]:
    """Yields a row for each argument. PyTorch's gradients have its dtype, which a device's may not have."""
    dtypes = {each.dtype for each in exported.tensors if each.values.dtype.kind not in "iu"}
    # acc_check computes the references of different dtypes in float32.
    reference = np.dtype(np.float32) if len(dtypes) > 1 else cells.reference_dtype(*dtypes)
    for each in exported.tensors:
        if each.gradient is None:
            yield cells.skipped("The tensor needs no gradient.")
        else:
            truth, gradient = judged.expected[each.gradient], judged.gradients[each.gradient]
            yield cells.row(truth.astype(reference), gradient.astype(each.values.dtype), each.dtype)


def _name(selection: Selection) -> str:
    """Returns the name of a server's folder, of signs that msprobe takes: "127.0.0.1:50051", "unix:_run_a.sock"."""
    return re.sub(r"[^a-zA-Z0-9_.:-]", "_", selection.target.origin.target)
