"""Faults planted in the recorded results of a dump: each kind is one that a wrong kernel makes."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

Fault = Callable[[Tensor, Tensor | None], Tensor]
"""Makes a result wrong, given what the call before had in its place; returns an equal one if it cannot."""


def _one_percent(result: Tensor, _: Tensor | None) -> Tensor:
    return result * 1.01


def _one_element(result: Tensor, _: Tensor | None) -> Tensor:
    """One element in ten is larger than this."""
    wrong = result.clone().reshape(-1)
    place = int(wrong.abs().argsort()[wrong.numel() * 9 // 10])
    wrong[place] *= 1.1
    return wrong.reshape(result.shape)


def _sign(result: Tensor, _: Tensor | None) -> Tensor:
    return -result


def _nan(result: Tensor, _: Tensor | None) -> Tensor:
    wrong = result.clone().reshape(-1)
    wrong[wrong.numel() // 2] = float("nan")
    return wrong.reshape(result.shape)


def _stale_tail(result: Tensor, before: Tensor | None) -> Tensor:
    """The last quarter is what the call before left there."""
    wrong = result.clone().reshape(-1)
    start = wrong.numel() - wrong.numel() // 4
    is_alike = before is not None and before.shape == result.shape
    wrong[start:] = before.reshape(-1)[start:] if before is not None and is_alike else 0
    return wrong.reshape(result.shape)


def _rows_swapped(result: Tensor, _: Tensor | None) -> Tensor:
    if result.dim() == 0:
        return result
    wrong = result.clone()
    wrong[0], wrong[-1] = result[-1], result[0]
    return wrong


def _rounded_twice(result: Tensor, _: Tensor | None) -> Tensor:
    """What a kernel returns that has computed in bfloat16."""
    return result.to(torch.bfloat16).to(result.dtype)


FAULTS: Final[dict[str, Fault]] = {
    "one percent": _one_percent,
    "one element": _one_element,
    "sign": _sign,
    "NaN": _nan,
    "stale tail": _stale_tail,
    "rows swapped": _rows_swapped,
    "rounded twice": _rounded_twice,
}


@dataclass(frozen=True, slots=True)
class Planted:
    """A copy of a dump with faults, and the entries that have them in the order of execution."""

    path: Path
    entries: tuple[str, ...]


def plant(dump: Path, folder: Path, fault: Fault, wanted: Callable[[str], bool]) -> Planted:
    """Copies a dump by hard links, and makes a result of every wanted entry wrong, if the fault changes any.

    The first result that changes is taken: an output of a forward entry, or a gradient of a backward entry.
    """
    data, copied = dump.parent / "dump_tensor_data", folder / "dump_tensor_data"
    copied.mkdir(parents=True)
    for each in data.iterdir():
        os.link(each, copied / each.name)
    (folder / "dump.json").write_bytes(dump.read_bytes())
    entries = json.loads(dump.read_bytes())["data"]
    planted = tuple(name for name in entries if wanted(name) and _plant(name, entries, copied, fault))
    return Planted(folder / "dump.json", planted)


def _plant(name: str, entries: dict[str, Any], data: Path, fault: Fault) -> bool:
    for number, info in enumerate(entries[name].get("output", [])):
        if not isinstance(info, dict) or "data_name" not in info:
            continue
        result = torch.load(data / info["data_name"], weights_only=True)
        wrong = fault(result, _before(name, number, entries, data)) if result.is_floating_point() else result
        if not torch.equal(wrong, result):
            # The original has the same inode.
            (data / info["data_name"]).unlink()
            torch.save(wrong.contiguous().clone(), data / info["data_name"])
            return True
    return False


def _before(name: str, number: int, entries: dict[str, Any], data: Path) -> Tensor | None:
    """Returns the same result of the call before."""
    api, count, half = name.rsplit(".", 2)
    outputs = entries.get(f"{api}.{int(count) - 1}.{half}", {}).get("output", [])
    info = outputs[number] if number < len(outputs) else None
    found = info and torch.load(data / info["data_name"], weights_only=True)
    return found if isinstance(found, Tensor) else None
