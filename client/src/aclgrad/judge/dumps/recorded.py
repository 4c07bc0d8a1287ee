"""One call of a dump: its arguments, and what training recorded of its results."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from aclgrad import units
from aclgrad.judge.msprobe.dump import Entry, EntryError, TensorInfo, is_tensor, tensors
from aclgrad.judge.msprobe.tensor_files import load_tensor
from aclgrad.judge.msprobe.values import built_arguments

MAX_BYTES = 2**30
"""What the tensors of one call may take together; its runs take about ten times as much."""


@dataclass(frozen=True)
class Result:
    """A tensor that training recorded as a result; its file is read when it is judged."""

    name: str
    info: TensorInfo
    folder: Path

    @cached_property
    def tensor(self) -> Tensor:
        """Raises EntryError for a file that is missing or not as the dump tells."""
        return _load(self.info, self.folder)


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A call with tensors of the CPU. Those that needed a gradient require one."""

    entry: Entry
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: tuple[Result | None, ...]
    """The tensors of the forward pass, those of nested lists in their order; None if the dump does not tell."""
    grad_outputs: tuple[Tensor | None, ...]
    """The gradients that the last step of the function was given."""
    gradients: tuple[Result | None, ...]
    """The gradients that it returned; None for what needed none."""
    backward_fault: str
    """Why the backward pass cannot be repeated, if it cannot."""

    @classmethod
    def of(cls, entry: Entry, folder: Path) -> "Recorded":
        """Reads the arguments of a call; raises EntryError if one of them is missing or broken."""
        _check_size(entry)
        told = _with_dtype(entry) if entry.api in ("to", "type") else entry
        args, kwargs = built_arguments(told, lambda info: _with_gradient(_load(info, folder), info))
        outputs = tuple(_results(entry.outputs, "output", folder))
        try:
            given = tuple(_loaded(each, folder) for each in entry.grad_outputs)
            found = tuple(_results(entry.grad_inputs, "gradient", folder))
        except EntryError as error:
            return cls(entry, args, kwargs, outputs, (), (), str(error))
        return cls(entry, args, kwargs, outputs, given, found, "")

    @property
    def has_backward(self) -> bool:
        return self.entry.backward is not None


def tensors_of(value: Any) -> list[Tensor]:
    """Returns the tensors of a value, those of lists, tuples and dictionaries in their order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [each for part in value for each in tensors_of(part)] if isinstance(value, list | tuple) else []


def mapped(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Returns the value with other tensors in the place of its own."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: mapped(change, each) for name, each in value.items()}
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(mapped(change, each) for each in value)
    return value


def _with_dtype(entry: Entry) -> Entry:
    """Returns a cast with its dtype, which msprobe leaves out where it is no keyword."""
    output = entry.outputs[0] if entry.outputs else None
    if {} not in entry.args or not isinstance(output, dict) or not is_tensor(output):
        return entry
    dtype = {"type": "torch.dtype", "value": output["dtype"]}
    return replace(
        entry, forward={**entry.forward, "input_args": [dtype if each == {} else each for each in entry.args]}
    )


def _results(raw: Sequence[Any], name: str, folder: Path) -> list[Result | None]:
    results: list[Result | None] = []
    for each in raw:
        if isinstance(each, list):
            results += [
                None if one is None else Result(f"{name}.{len(results) + number}", one.info, folder)
                for number, one in enumerate(_results(each, name, folder))
            ]
        elif is_tensor(each):
            results.append(Result(f"{name}.{len(results)}", TensorInfo.of(each), folder))
        elif name == "gradient":
            results.append(None)
    return results


def _loaded(raw: Any, folder: Path) -> Tensor | None:
    return _load(TensorInfo.of(raw), folder) if is_tensor(raw) else None


def _load(info: TensorInfo, folder: Path) -> Tensor:
    if info.data_name is None and 0 in info.shape:
        return torch.empty(info.shape, dtype=getattr(torch, info.dtype))
    if info.data_name is None:
        raise EntryError('the dump has no elements of its tensors; dump again with task="tensor"')
    return load_tensor(folder, info)


def _with_gradient(tensor: Tensor, info: TensorInfo) -> Tensor:
    return tensor.requires_grad_(info.requires_grad and (tensor.is_floating_point() or tensor.is_complex()))


def _check_size(entry: Entry) -> None:
    raw = (*entry.kwargs.values(), entry.args, entry.outputs, entry.grad_outputs, entry.grad_inputs)
    size = sum(info.size_bytes for each in raw for info in tensors(each))
    if size > MAX_BYTES:
        raise EntryError(f"its tensors take {units.size(size)}, more than {units.size(MAX_BYTES)}")
