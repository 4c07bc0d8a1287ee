"""Dumps with calls made up for a test, and what is made of their arguments."""

from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.judge.msprobe.dump import Dump, Entry, EntryError
from aclgrad.judge.msprobe.values import Values, read_values
from tests.judge.msprobe.writing import tensor

FILE: Final = "Functional.relu.0.forward.input.0.pt"


def info(**members: Any) -> dict[str, Any]:
    """Returns what a dump tells of a tensor, of which any member may be another one."""
    return tensor() | members


def call(*args: Any, **kwargs: Any) -> dict[str, Any]:
    return {"input_args": list(args), "input_kwargs": kwargs, "output": [info()]}


def dump_of(folder: Path, *calls: dict[str, Any], name: str = "Functional.relu.{}") -> Dump:
    entries = tuple(Entry(name.format(n), each, {"input": [info()]}) for n, each in enumerate(calls))
    return Dump(folder / "dump.json", entries)


def values_of(dump: Dump, **options: Any) -> list[Values | EntryError]:
    return [values for _, values in read_values(dump, **options)]


def made(dump: Dump, **options: Any) -> Values:
    """Returns the arguments of the only call."""
    (values,) = values_of(dump, **options)
    if isinstance(values, EntryError):
        raise values
    return values


def tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value.detach()]
    if isinstance(value, Values):
        return tensors([list(value.kwargs.values()), value.args, value.grad_output])
    return [each for part in value for each in tensors(part)] if isinstance(value, (list, tuple)) else []


def in_file(folder: Path, tensor: Any = None, name: str = FILE, **members: Any) -> Dump:
    """Returns a dump with one call whose argument is in a file, saved by torch unless there is one."""
    data = folder / "dump_tensor_data"
    data.mkdir(exist_ok=True)
    if tensor is not None:
        torch.save(tensor, data / name)
    return dump_of(folder, call(info(data_name=name, **members)))
