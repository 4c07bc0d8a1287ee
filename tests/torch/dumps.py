"""Writes dumps as msprobe does, of calls that a test makes: tensors in files, or statistics alone."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional


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
        """Adds an API, for example "Functional.pad.0", whose results are not those of the function."""
        outputs_of, gradients = [grad_output] * outputs, ()
        self._add(name, args, grad_output, kwargs or {}, outputs_of, gradients)

    def record(
        self,
        name: str,
        args: Sequence[Any],
        grad_output: torch.Tensor,
        kwargs: Mapping[str, Any] | None = None,
        *,
        function: Callable[..., Any] | None = None,
        change: Callable[[torch.Tensor], torch.Tensor] = lambda gradient: gradient,
    ) -> None:
        """Adds an API with what PyTorch computes; `change` is what becomes of the first gradient.

        As with msprobe, the gradients are those that the node of the first output returns.
        """
        prefix, api = name.split(".")[:2]
        called = function or getattr({"Functional": functional, "Torch": torch, "Tensor": torch.Tensor}[prefix], api)
        # A call in place takes no leaf.
        own = [_copy(each).clone() if isinstance(each, torch.Tensor) else each for each in args]
        named = {key: _copy(each) if isinstance(each, torch.Tensor) else each for key, each in (kwargs or {}).items()}
        result = called(*own, **named)
        results = list(result) if isinstance(result, tuple) else [result]
        returned: list[tuple[torch.Tensor | None, ...]] = []
        results[0].grad_fn.register_hook(lambda gradients, _: returned.append(gradients))
        outputs = [each.detach().clone() for each in results]
        results[0].backward(grad_output)
        first, *others = returned[0]
        self._add(name, args, grad_output, kwargs or {}, outputs, [first if first is None else change(first), *others])

    def _add(
        self,
        name: str,
        args: Sequence[Any],
        grad_output: torch.Tensor,
        kwargs: Mapping[str, Any],
        outputs: Sequence[torch.Tensor],
        gradients: Sequence[torch.Tensor | None],
    ) -> None:
        forward, backward = f"{name}.forward", f"{name}.backward"
        self._entries[forward] = {
            "input_args": [self._value(each, f"{forward}.input.{number}") for number, each in enumerate(args)],
            "input_kwargs": {key: self._value(each, f"{forward}.kwargs.{key}") for key, each in kwargs.items()},
            "output": [self._value(each, f"{forward}.output.{number}") for number, each in enumerate(outputs)],
        }
        self._entries[backward] = {
            "input": [self._value(grad_output, f"{backward}.input.0")],
            "output": [self._value(each, f"{backward}.output.{number}") for number, each in enumerate(gradients)],
        }

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


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
