"""The folder of `--msprobe`: sample calls as a dump, which acc_check repeats without a card, and rows as its tables.

Beside `dump.json` is the folder of its tensors: numpy's files, or PyTorch's for bfloat16, which numpy's cannot hold.
"""

import io
import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.check.target import CheckError, Selection
from aclgrad.judge.findings.rows import Row, Verdict
from aclgrad.judge.msprobe import cells
from aclgrad.judge.msprobe.arguments import Argument, Array, Tensor
from aclgrad.judge.msprobe.calls import ApiCall, api_call, api_of, refusal
from aclgrad.judge.msprobe.tables import Tables, is_readable
from aclgrad.new_files import naming, whole_file
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product

DUMP: Final = "dump.json"
_DATA: Final = "dump_tensor_data"
"""acc_check looks for tensors only in this folder."""


@dataclass(frozen=True, slots=True)
class Exported:
    """A case with its call's name in msprobe's files, such as "Functional.pad.0".

    `refusal` is why acc_check cannot check it; the dump then lacks it.
    """

    typed: TypedCase
    name: str
    refusal: str

    def call(self) -> ApiCall:
        """Returns the call with the values of the case, unless it is refused."""
        return api_call(self.typed, self.typed.arrays())


def exported(cases: Iterable[TypedCase]) -> Iterator[Exported]:
    """Yields the cases, numbered for each function of PyTorch."""
    numbers: Counter[str] = Counter()
    for typed in cases:
        api = api_of(typed)
        yield Exported(typed, f"{api}.{numbers[api]}", refusal(typed))
        numbers[api] += 1


def write_dump(folder: Path, cases: Iterable[Exported]) -> tuple[int, int]:
    """Writes the tensors of the cases into the folder, then dump.json.

    Returns the number of calls in the dump, and the number of those missing because bfloat16 needs PyTorch, which is
    not installed. Raises OSError, with the name of the file, if one cannot be written.
    """
    entries: dict[str, Any] = {}
    counts: Counter[bool] = Counter()
    data = folder / _DATA
    data.mkdir()
    has_pytorch = find_spec("torch") is not None
    for case in cases:
        if case.refusal:
            continue
        call = case.call()
        is_written = has_pytorch or not any(each.dtype == "bfloat16" for each in call.tensors)
        counts[is_written] += 1
        if is_written:
            entries |= _entries(data, case.name, call)
    dump = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": _DATA, "data": entries}
    _write(folder / DUMP, json.dumps(dump, indent=1, allow_nan=False).encode())
    return counts[True], counts[False]


def _entries(data: Path, name: str, call: ApiCall) -> dict[str, Any]:
    forward = [_entry(data / f"{name}.forward.input.{at}", each) for at, each in enumerate(call.arguments)]
    keywords = {key: _entry(data / f"{name}.forward.kwargs.{key}", each) for key, each in call.keywords.items()}
    grad_output = _entry(data / f"{name}.backward.input.0", Tensor(call.grad_output))
    output = {key: grad_output[key] for key in ("type", "dtype", "shape")}
    return {
        f"{name}.forward": {"input_args": forward, "input_kwargs": keywords, "output": [output]},
        f"{name}.backward": {"input": [grad_output], "output": []},
    }


def _entry(path: Path, value: Argument) -> Any:
    """Returns the dump's entry of an argument; a tensor's values go into a file with this path and a suffix."""
    match value:
        case None:
            return None
        case Tensor():
            return {
                "type": "torch.Tensor",
                "dtype": f"torch.{value.dtype}",
                "shape": list(value.values.shape),
                "requires_grad": value.gradient is not None,
                "data_name": _save(path, value.values),
            }
        case bool() | int() | float() | str():
            return {"type": type(value).__name__, "value": value}
    return [_entry(path, each) for each in value]


def _save(path: Path, values: Array) -> str:
    content = io.BytesIO()
    if values.dtype.name == "bfloat16":
        import torch

        suffix = "pt"
        torch.save(torch.from_numpy(values.view(np.int16)).view(torch.bfloat16), content)
    else:
        suffix = "npy"
        np.save(content, values, allow_pickle=False)
    file = path.with_name(f"{path.name}.{suffix}")
    _write(file, content.getbuffer())
    return file.name


def _write(path: Path, content: bytes | memoryview) -> None:
    with naming(path), whole_file(path) as file:
        file.write(content)


def check_unused(folder: Path) -> None:
    """Raises CheckError unless the folder is empty: msprobe would mix the files of two runs."""
    if folder.is_dir() and any(folder.iterdir()):
        raise CheckError(f"{folder} is not empty, and two runs would be mixed; name a new folder")


class Exports:
    """A dump and a pair of tables for each server; several servers have a subfolder each."""

    def __init__(self, folder: Path, selections: Sequence[Selection]) -> None:
        """Makes the folders and writes the dumps; raises OSError if that fails."""
        self._exports = {
            each.target.origin: _Export.start(folder if len(selections) == 1 else folder / _name(each), each)
            for each in selections
        }

    def take(self, row: Row, judged: JudgedProgram | None) -> None:
        """Writes a row about accuracy, without a call if that failed. Raises OSError."""
        if row.check == "accuracy":
            self._exports[row.origin].take(row, judged)

    def lines(self) -> Iterator[str]:
        """Yields lines about the written files, and how to make the same calls on a GPU."""
        for origin, export in self._exports.items():
            yield from export.lines(origin.target)


@dataclass(frozen=True, slots=True)
class _Export:
    """The export of one server."""

    folder: Path
    product: Product
    tables: Tables
    cases: Mapping[tuple[str, str, str], Exported]
    """Cases by operator, dtype and name of the row."""
    calls: int
    without_pytorch: int
    """The number of calls missing in the dump because PyTorch is not installed."""

    @classmethod
    def start(cls, folder: Path, selection: Selection) -> Self:
        product, judged = selection.target.product, list(selection.named())
        # Quick and full runs have the same names for the same calls.
        table = {str(each): each for each in (*typed_cases(product), *(typed for _, typed in judged))}
        named = {str(each.typed): each for each in exported(table.values())}
        cases = {(typed.spec.name, typed.dtype, name): named[str(typed)] for name, typed in judged}
        folder.mkdir(parents=True, exist_ok=True)
        calls, without_pytorch = write_dump(folder, cases.values())
        return cls(folder, product, Tables.start(folder), cases, calls, without_pytorch)

    def take(self, row: Row, judged: JudgedProgram | None) -> None:
        case = self.cases[row.operator, row.dtype, row.case]
        if case.refusal:
            rows = [cells.skipped(case.refusal)]
        elif judged is None:
            rows = [cells.skipped(row.message)]
        else:
            rows = list(_compared(case.call(), judged))
        about = f"{row.operator} {row.case} on {self.product}."
        if judged and row.verdict is not Verdict.PASSED:
            about += f" aclgrad check: {row.message}."
        self.tables.write(case.name, [replace(each, message=f"{about} {each.message}") for each in rows])

    def lines(self, target: str) -> Iterator[str]:
        folder, tables = shlex.quote(str(self.folder)), shlex.quote(str(self.tables.details))
        yield f"{folder} has the gradients of {target}, and {self.calls} of the calls for a GPU; copy it there and run:"
        yield f"  msprobe acc_check -api_info {folder}/{DUMP} -o {folder}/gpu"
        theirs = f"{folder}/gpu/accuracy_checking_details_*.csv"
        yield f"  msprobe api_precision_compare -npu {tables} -gpu {theirs} -o {folder}/compared"
        if self.without_pytorch:
            yield f"{self.without_pytorch} calls of bfloat16 are not among them: install PyTorch here, which writes it"
        if not is_readable(self.folder):
            yield f"msprobe refuses the path {self.folder.resolve()}: take one of letters, digits and _.- for the copy"


def _compared(exported: ApiCall, judged: JudgedProgram) -> Iterator[cells.Row]:
    """Yields a row for each argument. PyTorch's gradients have the argument's dtype; a device's may differ."""
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
    """Returns the name of a server's folder that msprobe takes, such as "127.0.0.1:50051", "unix:_run_a.sock"."""
    return re.sub(r"[^a-zA-Z0-9_.:-]", "_", selection.target.origin.target)
