"""The key of a trace: a step with another key is traced anew."""

from collections.abc import Hashable, Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from aclgrad.bridges.served_operators import ServedOperators
from aclgrad.errors import InvalidFieldError
from aclgrad.torch.step.called import Batch, Called

_HOOKS: Final = tuple(name for name in vars(nn.Module()) if name.endswith("_hooks") and "state_dict" not in name)
"""The attributes of a module with its hooks."""
_CONSTANTS: Final = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


def key_of(called: Called, batch: Batch, gradient: Tensor | None, served: ServedOperators) -> Hashable:
    """Returns the key of a step; raises InvalidFieldError for unsupported arguments."""
    leaves, structure = pytree.tree_flatten((batch.args, dict(batch.options)))
    return (
        tuple(map(_leaf, leaves)),
        str(structure),
        None if gradient is None else _tensor(gradient),
        tuple(_modules(called)),
        tuple((name, id(each), _tensor(each)) for name, each in called.named_parameters(remove_duplicate=False)),
        tuple((name, _tensor(each)) for name, each in called.named_buffers(remove_duplicate=False)),
        _repeated([*called.parameters(), *called.buffers(), *batch.tensors]),
        _modes(),
        served.product,
        served.operators,
    )


def _leaf(value: Any) -> Hashable:
    if isinstance(value, Tensor):
        return _tensor(value)
    if isinstance(value, _CONSTANTS):
        return type(value), value
    problem = f"has a {type(value).__name__}"
    raise InvalidFieldError.at("batch", problem, "give tensors, numbers and texts, in tuples, lists and dicts")


def _tensor(tensor: Tensor) -> Hashable:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device, tensor.requires_grad


def _repeated(tensors: list[Tensor]) -> Hashable:
    """Returns for each tensor its first occurrence: a tensor given twice is sent once."""
    first: dict[int, int] = {}
    return tuple(first.setdefault(id(each), number) for number, each in enumerate(tensors))


def _modules(called: Called) -> Iterator[Hashable]:
    for name, module in called.named_modules(remove_duplicate=False):
        attributes = vars(module)
        hooks = tuple(tuple(attributes.get(each) or ()) for each in _HOOKS)
        yield name, id(module), type(module), module.training, hooks


def _modes() -> Hashable:
    """Returns PyTorch's modes that change its results."""
    return (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu"),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
