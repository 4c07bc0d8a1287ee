"""The functions that a dump names: PyTorch's, torchvision's, torch_npu's that PyTorch can express, and modules.

A dump is an untrusted file, so names are only looked up among functions that compute with tensors. A module is a call
if its only settings are its parameters, which a dump has.
"""

import importlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.judge.dumps.choices import NotJudgedError
from aclgrad.judge.dumps.npu_functions import FUNCTIONS
from aclgrad.judge.msprobe.dump import Dump, Entry
from aclgrad.torch.calls import operators_by_function, pooled_regions

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
"""By class: the function, and the parameters that are its last arguments."""
_OWNERS: Final[Mapping[str, tuple[Any, ...]]] = {
    "Functional": (functional,),
    "Torch": (torch, torch.linalg, torch.fft, torch.special),
    "Tensor": (Tensor,),
    "VF": (torch._VF,),  # noqa: SLF001 - msprobe's own name for where recurrent functions are
    "Aten": (torch.ops.aten,),
}
"""Modules to look a function up in, by the first part of its name; usually the first match is meant."""
_MORE: Final = frozenset(
    {"tanh", "sigmoid", "hardsigmoid", "hardswish", "upsample", "upsample_nearest", "upsample_bilinear", "unflatten"}
    | {"arange", "eye", "full", "linspace", "logspace", "ones", "zeros", "tril_indices", "triu_indices", "vander"}
    | {"bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window", "scalar_tensor"}
    | {"_softmax_backward_data", "_adaptive_avg_pool2d", "range", "ones_like", "zeros_like", "full_like"}
    | {"logsigmoid", "new_full", "new_ones", "new_zeros", "_aminmax", "_batch_norm_impl_index", "_convolution"}
    | {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell"}
)
"""Functions that compute but that PyTorch does not list as overridable."""
_REASONS: Final = {
    "Distributed": "a collective; what other ranks sent is not in this dump",
    "NPU_Distributed": "a collective; what other ranks sent is not in this dump",
    "MindSpeed": "a function of MindSpeed, not of PyTorch",
    "NPU": "a function of torch_npu that PyTorch has no other name for",
    "Jit": "a scripted function, whose code is not in the dump",
    "Module": "a module, whose settings are not in the dump; dump with level L1 for its functions",
}
"""Reasons by the first part of a name."""
_NOT_UNIQUE: Final = frozenset(
    {"svd", "eig", "eigh", "qr", "linalg_svd", "linalg_eig", "linalg_eigh", "lobpcg", "symeig"}
)
_EMPTY: Final = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})
_AUGMENTED: Final = frozenset(
    ("add", "sub", "mul", "div", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift")
)
_BEFORE: Final = re.compile("^(_?npu_|native_)")
"""Prefixes of torch_npu's and kernels' names before a function's."""
_OPERATORS: Final = frozenset(f"__{prefix}{name}__" for prefix in ("", "i", "r") for name in _AUGMENTED)


def _roi_align(
    input: Tensor,
    boxes: Any,
    output_size: Any,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Tensor:
    if not isinstance(boxes, Tensor):
        boxes = torch.cat([functional.pad(each, (1, 0), value=image) for image, each in enumerate(boxes)])
    height, width = (output_size, output_size) if isinstance(output_size, int) else output_size
    return pooled_regions(input, boxes, height, width, spatial_scale, sampling_ratio, aligned)


OTHERS: Final[Mapping[str, Callable[..., Any]]] = {**FUNCTIONS, "torchvision.ops.roi_align": _roi_align}
"""Functions by msprobe's names."""


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The parts of an entry's name, "Module.layer1.0.fc.Linear.forward.2"."""

    path: str
    kind: str
    part: str
    number: str

    @classmethod
    def of(cls, name: str) -> "ModuleName | None":
        """Returns the parts, or None if it is not the name of a module's entry."""
        match = _NAME.fullmatch(name)
        return cls(*match.groups()) if match else None

    @property
    def reason(self) -> str:
        """Why the entry is not judged if `module_function` has no function for the class."""
        if self.part == "parameters_grad":
            return "the sum of all backward passes since the gradients were cleared"
        return f"the settings of a {self.kind} are not in the dump; dump with level L1 for its functions"


def function_of_module(name: str) -> Callable[..., Any] | None:
    """Returns the function of a module, "Module.fc.Linear", or None if it is another name."""
    prefix, _, kind = name.rpartition(".")
    return _CLASSES[kind][0] if prefix.split(".")[0] == "Module" and kind in _CLASSES else None


def module_entry(dump: Dump, name: str) -> Entry | None:
    """Returns the call of a module whose forward pass has this name, or None if its class has further settings."""
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


@dataclass(frozen=True, slots=True)
class Api:
    """A function of a dump's call. `operators` are our operators that compute its gradients."""

    name: str
    function: Callable[..., Any]
    is_in_place: bool
    operators: tuple[str, ...] = ()


def find_apis(name: str) -> list[Api]:
    """Returns the functions of a name, "Functional.conv2d"; raises NotJudgedError for another kind of name.

    There may be several: msprobe also writes torch.linalg.norm as Torch.norm.
    """
    owner, _, function = name.rpartition(".")
    if function in _NOT_UNIQUE:
        raise NotJudgedError("its vectors are right with either sign, and within a space of equal values")
    if function in _EMPTY:
        raise NotJudgedError("its result has no values of its own")
    if (own := OTHERS.get(name) or function_of_module(name)) is not None:
        found = [own]
    elif (reason := _REASONS.get(owner.split(".")[0])) is not None:
        raise NotJudgedError(reason)
    else:
        found = [_of_torchvision(function)] if owner == "torchvision.ops" else _of_pytorch(owner, function)
    in_place = (function.endswith("_") and not function.endswith("__")) or (
        function.startswith("__i") and function.endswith("__") and function[3:-2] in _AUGMENTED
    )
    is_set = function in ("__setitem__", "copy_")
    operators = operators_by_function().get(_BEFORE.sub("", function).rstrip("_"), ())
    return [Api(name, each, in_place or is_set, operators) for each in found]


def _of_pytorch(owner: str, function: str) -> list[Callable[..., Any]]:
    if owner not in _OWNERS:
        raise NotJudgedError(f"no function of PyTorch: {owner or function}")
    found = [getattr(each, function, None) for each in _OWNERS[owner] if function.isidentifier()]
    functions = [each for each in found if callable(each)]
    if not functions:
        raise NotJudgedError(f"PyTorch {torch.__version__} has no such function")
    if owner == "Aten":
        if function == "from_file":
            raise NotJudgedError("it reads a file")
    elif not (function in _overridable() or function.rstrip("_") in _overridable() or function in _MORE):
        raise NotJudgedError("it does not compute with tensors alone")
    return functions


def _of_torchvision(function: str) -> Callable[..., Any]:
    try:
        operations = importlib.import_module("torchvision.ops")
    except (ImportError, RuntimeError) as error:  # the latter if it was built for another PyTorch
        raise NotJudgedError("torchvision is not installed, or does not fit this PyTorch") from error
    found = getattr(operations, function, None) if function in operations.__all__ else None
    if not callable(found) or isinstance(found, type):
        raise NotJudgedError("torchvision has no such function")
    return found  # type: ignore[no-any-return]


@cache
def _overridable() -> frozenset[str]:
    """Returns the names of all functions of tensors that PyTorch lists as overridable."""
    owners = (torch, functional, torch.functional, Tensor, torch.linalg, torch.fft, torch.special)
    functions = torch.overrides.get_overridable_functions()
    names = (str(getattr(each, "__name__", "")) for owner in owners for each in functions[owner])
    return frozenset(re.sub("^(linalg|fft|special)_", "", name) for name in names) | _OPERATORS
