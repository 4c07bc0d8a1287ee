"""Dumps of real calls with what they returned and the gradients of their backward passes, as msprobe makes them.

msprobe's hook is on the autograd node of the first output: a backward entry holds that node's gradients, which are not
always those of the call's arguments.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

_MODULES: Final = {"Functional": torch.nn.functional, "Tensor": torch.Tensor, "Torch": torch}


class Recording:
    """A dump of one rank, to which every `call` adds its entries at once, and its backward pass when that runs."""

    def __init__(self, folder: Path, *, task: str = "tensor") -> None:
        self.path = folder / "dump.json"
        self._has_files = task == "tensor"
        self._data = folder / "dump_tensor_data"
        self._data.mkdir(parents=True, exist_ok=True)
        self._entries: dict[str, Any] = {}
        self._counts: Counter[str] = Counter()

    def call(self, api: str, *args: Any, function: Callable[..., Any] | None = None, **kwargs: Any) -> Any:
        """Calls a function by msprobe's name for it, for example "Functional.linear"."""
        name, forward = self._forward(api, args, kwargs)
        outputs = (function or function_of(api))(*args, **kwargs)
        listed = outputs if isinstance(outputs, tuple | list) else [outputs]
        forward["output"] = self._values(listed, f"{name}.forward.output")
        first = next(tensors(outputs), None)
        if first is not None and first.grad_fn is not None:
            first.grad_fn.register_hook(lambda *found: self._add_backward(f"{name}.backward", *found))
        return outputs

    def differentiate(self, by: Tensor, api: str, *args: Any, **kwargs: Any) -> None:
        """Calls a function and its backward pass, of copies: a call in place takes no leaf."""
        own = [each.clone() if isinstance(each, Tensor) else each for each in args]
        next(tensors(self.call(api, *own, **kwargs))).backward(by)

    def add(self, by: Tensor, api: str, *args: Any, **kwargs: Any) -> None:
        """Adds a call that is not made: its result is the gradient that its backward pass is given."""
        name, forward = self._forward(api, args, kwargs)
        forward["output"] = self._values([by], f"{name}.forward.output")
        self._add_backward(f"{name}.backward", (), (by,))

    def write(self) -> Path:
        fields = {"task": "tensor" if self._has_files else "statistics", "level": "L1", "framework": "pytorch"}
        folder = str(self._data) if self._has_files else None
        if not self._has_files:
            self._data.rmdir()
        self.path.write_text(json.dumps(fields | {"dump_data_dir": folder, "data": self._entries}))
        return self.path

    def _forward(self, api: str, args: Any, kwargs: Any) -> tuple[str, dict[str, Any]]:
        name = f"{api}.{self._counts[api]}"
        self._counts[api] += 1
        self._entries[f"{name}.forward"] = forward = {
            "input_args": self._values(args, f"{name}.forward.input"),
            "input_kwargs": {key: self._value(each, f"{name}.forward.kwargs.{key}") for key, each in kwargs.items()},
        }
        return name, forward

    def _add_backward(self, name: str, grad_inputs: tuple[Any, ...], grad_outputs: tuple[Any, ...]) -> None:
        found = {"input": self._values(grad_outputs, f"{name}.input")}
        self._entries[name] = found | {"output": self._values(grad_inputs, f"{name}.output")}

    def _values(self, values: Any, name: str) -> list[Any]:
        return [self._value(each, f"{name}.{number}") for number, each in enumerate(values)]

    def _value(self, value: Any, name: str) -> Any:
        if value is None:
            return None
        if isinstance(value, torch.Size):
            return {"type": "torch.Size", "value": list(value)}
        if isinstance(value, list | tuple):
            return self._values(value, name)
        if isinstance(value, slice):
            return {"type": "slice", "value": [value.start, value.stop, value.step]}
        if isinstance(value, torch.dtype):
            return {"type": "torch.dtype", "value": str(value)}
        if not isinstance(value, Tensor):
            return {"type": type(value).__name__, "value": "..." if value is ... else value}
        info = {
            "type": "torch.Tensor",
            "dtype": str(value.dtype),
            "shape": list(value.shape),
            "requires_grad": value.requires_grad,
        }
        if not value.numel():
            return info  # msprobe writes no file of an empty tensor
        if not value.is_complex():
            info |= {"Max": value.max().item(), "Min": value.min().item()}
        if not self._has_files:
            return info
        torch.save(value.detach().contiguous().clone(), self._data / f"{name}.pt")
        return info | {"data_name": f"{name}.pt"}


def function_of(api: str) -> Callable[..., Any]:
    module, _, name = api.partition(".")
    found: Callable[..., Any] = getattr(_MODULES[module], name)
    return found


def tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors(each)
