"""Writes dumps as msprobe does, of calls that a test makes: tensors in files, or statistics alone."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch


class Dump:
    """A dump of one rank in a folder, of calls that are added one by one."""

    def __init__(self, folder: Path, *, task: str = "tensor") -> None:
        self.path = folder / "dump.json"
        self._data = folder / "dump_tensor_data"
        self._data.mkdir(parents=True, exist_ok=True)
        self._task = task
        self._entries: dict[str, Any] = {}

    def add(
        self,
        name: str,
        args: Sequence[Any],
        grad_output: torch.Tensor,
        kwargs: Mapping[str, Any] | None = None,
        outputs: int = 1,
    ) -> None:
        """Adds an API, for example "Functional.pad.0"."""
        forward, backward = f"{name}.forward", f"{name}.backward"
        self._entries[forward] = {
            "input_args": [self._value(each, f"{forward}.input.{number}") for number, each in enumerate(args)],
            "input_kwargs": {key: self._value(each, f"{forward}.kwargs.{key}") for key, each in (kwargs or {}).items()},
            "output": [self._value(grad_output, f"{forward}.output.{number}") for number in range(outputs)],
        }
        self._entries[backward] = {"input": [self._value(grad_output, f"{backward}.input.0")], "output": []}

    def write(self) -> Path:
        told = {
            "task": self._task,
            "level": "L1",
            "framework": "pytorch",
            "dump_data_dir": "dump_tensor_data" if self._task == "tensor" else None,
            "data": self._entries,
        }
        self.path.write_text(json.dumps(told))
        return self.path

    def _value(self, value: Any, name: str) -> Any:
        if value is None:
            return None
        if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
            return [self._value(each, f"{name}.{number}") for number, each in enumerate(value)]
        if not isinstance(value, torch.Tensor):
            return {"type": type(value).__name__, "value": value}
        told = {
            "type": "torch.Tensor",
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "Max": value.max().item() if value.numel() else None,
            "Min": value.min().item() if value.numel() else None,
            "Mean": None,
            "Norm": None,
            "requires_grad": value.requires_grad,
        }
        if self._task == "tensor":
            torch.save(value.detach().contiguous().clone(), self._data / f"{name}.pt")
            told["data_name"] = f"{name}.pt"
        return told
