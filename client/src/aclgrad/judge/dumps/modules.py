"""Modules as calls of functions: those of a class whose only settings are its parameters, which a dump has."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch.nn import functional

from aclgrad.judge.msprobe.dump import Dump, Entry

_NAME: Final = re.compile(r"(?!.{255})Module\.([\w.]+)\.(\w+)\.(forward|backward|parameters_grad)\.(\d+)", re.ASCII)
_CLASSES: Final[Mapping[str, tuple[Callable[..., Any], tuple[str, ...]]]] = {
    "Linear": (functional.linear, ("weight", "bias")),
    "Bilinear": (functional.bilinear, ("weight", "bias")),
    "ReLU": (functional.relu, ()),
    "ReLU6": (functional.relu6, ()),
    "Sigmoid": (torch.sigmoid, ()),
    "Tanh": (torch.tanh, ()),
    "SiLU": (functional.silu, ()),
    "Mish": (functional.mish, ()),
    "Hardswish": (functional.hardswish, ()),
    "Hardsigmoid": (functional.hardsigmoid, ()),
    "LogSigmoid": (functional.logsigmoid, ()),
    "Softsign": (functional.softsign, ()),
    "Tanhshrink": (functional.tanhshrink, ()),
}
"""By the class: the function, and the parameters that are its last arguments."""


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The parts of an entry's name, "Module.layer1.0.fc.Linear.forward.2"."""

    path: str
    kind: str
    part: str
    number: str

    @classmethod
    def of(cls, name: str) -> "ModuleName | None":
        """Returns the parts, or None if it is no name of a module's entry."""
        match = _NAME.fullmatch(name)
        return cls(*match.groups()) if match else None

    @property
    def reason(self) -> str:
        """Why the entry is not judged, if `module_function` has no function of the class."""
        if self.part == "parameters_grad":
            return "the sum of all backward passes since the gradients were cleared"
        return f"the settings of a {self.kind} are not in the dump; dump with level L1 for its functions"


def function_of_module(name: str) -> Callable[..., Any] | None:
    """Returns the function of a module, "Module.fc.Linear", or None if it is another name."""
    prefix, _, kind = name.rpartition(".")
    return _CLASSES[kind][0] if prefix.split(".")[0] == "Module" and kind in _CLASSES else None


def module_entry(dump: Dump, name: str) -> Entry | None:
    """Returns the call of a module whose forward pass has this name, or None if its class has settings of its own."""
    parts = ModuleName.of(name)
    if parts is None or parts.kind not in _CLASSES or parts.part != "forward":
        return None
    forward = dump.data[name]
    if not isinstance(forward, dict) or not isinstance(forward.get("input_args"), list):
        return None
    parameters = forward.get("parameters")
    own = parameters if isinstance(parameters, dict) else {}
    arguments = [own[each] for each in _CLASSES[parts.kind][1] if each in own]
    backward = dump.data.get(f"Module.{parts.path}.{parts.kind}.backward.{parts.number}")
    arguments = [*forward["input_args"], *arguments]
    return Entry(f"Module.{parts.path}.{parts.kind}.{parts.number}", {**forward, "input_args": arguments}, backward)
