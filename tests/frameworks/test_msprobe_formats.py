"""Cells, tables and random arguments against the real msprobe."""

import csv
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from aclgrad.judge.msprobe.cells import SPACE, TITLE, Status, row, skipped
from aclgrad.judge.msprobe.dump import read_dump
from aclgrad.judge.msprobe.tables import Tables
from aclgrad.judge.msprobe.values import Values, read_values
from tests.frameworks.msprobe_oracle import ask, tensors
from tests.judge.msprobe.pairs import GOLDEN, PAIRS, arrays
from tests.judge.msprobe.writing import DUMPS, tensor, value, write, written

UNEQUAL = TITLE.index("二进制一致错误率") - 1
WIDE = {torch.float32: torch.float64, torch.float16: torch.float32, torch.bfloat16: torch.float32}


def rows_of_msprobe(folder: Path, pairs: list[tuple[Tensor, Tensor]]) -> list[list[str]]:
    torch.save(pairs, folder / "pairs.pt")
    ask("rows", folder / "pairs.pt", folder / "rows.pt")
    found: list[list[str]] = torch.load(folder / "rows.pt")
    return found


def drawn_pair(generator: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Returns a reference and a gradient with errors, zeros, infinities and NaN of every size."""
    dtypes = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool]
    dtype = dtypes[generator.integers(len(dtypes))]
    shapes: list[tuple[int, ...]] = [(1,), (), (0, 3), (7,), (3, 5), (2, 3, 4, 5), (200,)]
    shape = shapes[generator.integers(len(shapes))]

    def happens(share: float) -> bool:
        return bool(generator.random() < share)

    if not dtype.is_floating_point:
        truth = torch.from_numpy(np.asarray(generator.integers(0, 2, shape))).to(dtype)
        return truth, (~(truth > 0)).to(dtype) if happens(0.5) else truth.clone()
    exact, noise = (torch.from_numpy(np.asarray(generator.standard_normal(shape))) for _ in range(2))
    truth = (exact * 10.0 ** generator.integers(-12, 6) * (not happens(0.2))).to(WIDE.get(dtype, dtype))
    factor = (1 + noise * 10.0 ** generator.integers(-9, 1)) * (not happens(0.1))
    device = (truth.double() * factor).to(dtype)
    for each in (truth, device):
        if each.numel() > 2 and happens(0.1):
            each.view(-1)[0] = float(generator.choice([np.nan, np.inf]))
    return truth, device


def test_cells_are_those_of_msprobe(tmp_path: Path) -> None:
    generator = np.random.default_rng(32)
    pairs = [drawn_pair(generator) for _ in range(4000)]
    statuses = Counter[str]()
    for (truth, device), theirs in zip(pairs, rows_of_msprobe(tmp_path, pairs)[1:], strict=True):
        dtype = str(device.dtype).removeprefix("torch.")
        ours = row(truth.numpy(), (device.float() if dtype == "bfloat16" else device).numpy(), dtype).cells("")[1:]
        share, theirs[UNEQUAL] = theirs[UNEQUAL], ours[UNEQUAL]
        assert ours[:-1] == theirs[:-1]
        assert share in (SPACE, ours[UNEQUAL])
        statuses[ours[-2]] += 1
    assert set(statuses) == set(Status)


def test_the_golden_cells_are_those_of_this_msprobe(tmp_path: Path) -> None:
    def pair(name: str) -> tuple[Tensor, Tensor]:
        truth, device = arrays(name)
        if PAIRS[name][2] == "bfloat16":
            return torch.from_numpy(truth), torch.from_numpy(device.astype(np.float32)).bfloat16()
        return torch.from_numpy(truth), torch.from_numpy(device)

    title, *theirs = rows_of_msprobe(tmp_path, [pair(name) for name in PAIRS])
    with GOLDEN.open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.reader(file)) == [title, *([name, *cells] for name, cells in zip(PAIRS, theirs, strict=True))]


def check_draws(folder: Path) -> dict[str, int]:
    """Compares what is drawn for the dumps of a folder with what acc_check draws, and returns for how many calls."""
    ask("draws", folder, folder / "drawn.pt")
    theirs: dict[str, dict[str, list[Tensor]]] = torch.load(folder / "drawn.pt")
    compared = dict.fromkeys(theirs, 0)
    for name, calls in theirs.items():
        for entry, values in read_values(read_dump(folder / name / "dump.json")):
            if drawn := calls.pop(entry.name):
                assert isinstance(values, Values), f"{entry.name}: {values}"
                ours = tensors([list(values.kwargs.values()), values.args, values.grad_output])
                # The last is missing if acc_check draws no gradient, for a tuple.
                assert len(ours) - len(drawn) <= 1
                assert all(torch.equal(a, b) or bool((a != a).all()) for a, b in zip(ours, drawn, strict=False)), (
                    entry.name
                )
                compared[name] += 1
        assert not calls
    return compared


def test_random_arguments_are_those_of_acc_check(tmp_path: Path) -> None:
    for name in ("statistics", "tensor"):
        shutil.copytree(DUMPS / name, tmp_path / name)
    paths = [tmp_path / name / "dump.json" for name in ("statistics", "tensor")]
    for path in (*paths, *(written(tmp_path, name) for name in ("8.3.3", "md5", "mix", "edges"))):
        text = json.loads(path.read_text())
        # acc_check rounds the arguments of convolutions.
        text["data"] = {key: value for key, value in text["data"].items() if "conv2d" not in key}
        path.write_text(json.dumps(text))
    compared = check_draws(tmp_path)
    assert compared == {"statistics": 27, "8.3.3": 2, "md5": 2, "mix": 1, "edges": 5, "tensor": 5}


def info(dtype: str = "float32", shape: tuple[int, ...] = (2, 3), low: Any = -1.0, high: Any = 1.0) -> dict[str, Any]:
    return tensor(dtype=dtype, low=low, high=high) | {"shape": shape}


NAN, INF = float("nan"), float("inf")
SPECIAL: dict[str, tuple[list[Any], dict[str, Any], list[Any]]] = {
    # By name: the arguments, those by keyword, the outputs.
    "Functional.relu.0": ([info()], {}, [info()]),
    "Tensor.to.0": ([info()], {"dtype": value("torch.float64")}, [info()]),
    "Functional.relu.1": ([info(low=-0.1, high=7)], {}, [info()]),
    "Functional.adaptive_avg_pool2d.0": ([info(shape=(2, 4, 6))], {"output_size": [None, value(3)]}, [info()]),
    "Functional.relu.2": ([info(shape=(5,))], {}, [info(shape=(5,))]),
    "Torch.topk.0": ([info(shape=(4, 8)), value(3)], {}, [info(shape=(4, 3)), info("int64", (4, 3))]),
    "Functional.relu.3": ([info(shape=(1,))], {}, [info(shape=(1,))]),
    "Torch.sum.0": ([info("bool", (50,), False, True)], {}, [info("int64", ())]),
    "Torch.add.0": ([info("int32", (9,), -5, 5), info("int32", (9,), 2, 2)], {}, [info("int32", (9,))]),
    "Torch.add.1": ([info("float64", (9,)), info("float64", (9,))], {}, [info("float64", (9,))]),
    "Torch.add.2": ([info("float16", (3, 3)), info("bfloat16", (3, 3), -0.3, 2.7)], {}, [info("float32", (3, 3))]),
    "Torch.add.3": ([info(low=NAN, high=NAN), info(low=-INF, high=2.0)], {}, [info()]),
    "Torch.add.4": ([info(low=-2.0, high=INF), info(low=INF, high=INF)], {}, [info()]),
    "Torch.add.5": ([info("complex64"), info()], {}, [info("complex64")]),
    "Torch.add.6": ([info(), info()], {"out": info()}, [info()]),
    "Functional.relu.4": ([info(low=None, high=None)], {}, [info()]),
    "Torch.max_pool2d.0": (
        [],
        {"input": info(shape=(1, 2, 4, 4)), "kernel_size": value(2)},
        [info(shape=(1, 2, 2, 2))],
    ),
    "Functional.max_pool2d.0": (
        [info(shape=(1, 2, 4, 4)), value(2)],
        {"return_indices": value(True)},
        [info(shape=(1, 2, 2, 2)), info("int64", (1, 2, 2, 2), 0, 15)],
    ),
    "Functional.cross_entropy.0": ([info(shape=(4, 6)), info("int64", (4,), 0, 5)], {}, [info(shape=())]),
    "Distributed.all_reduce.0": ([info()], {}, [info()]),
    "torchvision.ops.nms.0": ([info(shape=(3, 4)), info(shape=(3,))], {}, [info()]),
    "Torch.cat.0": ([[info(), info()]], {}, [info(shape=(4, 3))]),
    "Functional.relu.5": ([info(shape=(0, 3), low=None, high=None)], {}, [info(shape=(0, 3), low=None, high=None)]),
    "Tensor.masked_select.0": ([info(), info("bool", (2, 3), False, True)], {}, [info(shape=(4,))]),
    "Functional.relu.6": ([info(shape=(3, 3))], {}, [info(shape=(3, 3))]),
}


def test_special_calls_leave_the_random_numbers_as_acc_check_does(tmp_path: Path) -> None:
    data: dict[str, Any] = {}
    for name, (args, kwargs, output) in SPECIAL.items():
        data[f"{name}.forward"] = {"input_args": args, "input_kwargs": kwargs, "output": output}
        data[f"{name}.backward"] = {"input": output[:1], "output": []}
    write(tmp_path / "special", data)
    assert check_draws(tmp_path)["special"] >= 17


def test_our_tables_are_compared(tmp_path: Path) -> None:
    """Against a perfect device; only rows that say so may be skipped."""
    verdicts = {"equal": "pass", "both_zero": "pass", "bfloat16": "pass"}
    verdicts |= {"small_values": "error", "half": "error", "one_percent_of_a_small_gradient": "error"}
    tables = Tables.start(tmp_path, local=True)
    skip = skipped("needs no gradient")
    for name in verdicts:
        truth, device = arrays(name)
        rows = (row(truth, each, PAIRS[name][2]) for each in (device, truth.astype(device.dtype)))
        tables.write(f"Functional.{name}.0", *([each, skip] for each in rows))
    ask("compare", tables.details, tmp_path / "compared")
    (details,) = (tmp_path / "compared").glob("*details*.csv")
    with details.open(encoding="utf-8-sig", newline="") as file:
        found = {cells["API Name"]: cells["比对结果"] for cells in csv.DictReader(file)}
    rows_of = "Functional.{}.0.backward.output.{}".format
    assert {name: found[rows_of(name, 0)] for name in verdicts} == verdicts
    assert {found[rows_of(name, 1)] for name in verdicts} == {"SKIP"}
