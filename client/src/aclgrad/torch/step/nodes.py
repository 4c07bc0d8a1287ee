"""Properties of a node of a traced graph: its origins, its type, and its value if it is a constant."""

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils import _pytree as pytree

from aclgrad._client.calls.handles import Handle
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.torch.aten import OF_SHAPES
from aclgrad.torch.calls import LocalError, dtype_name
from aclgrad.torch.step.computing import computed


class Follows(IntEnum):
    """The origins of a value: constants, integers, other values of the batch and buffers, parameters."""

    NOTHING = 0
    INTEGERS = 1
    NUMBERS = 2
    PARAMETERS = 3


def is_of_fractions(node: fx.Node) -> bool:
    """Whether a result has floating-point numbers."""
    leaves = pytree.tree_leaves(node.meta["val"])
    return any(isinstance(each, Tensor) and (each.is_floating_point() or each.is_complex()) for each in leaves)


def filler_of(node: fx.Node) -> Any:
    """Returns the common value of a constant's elements; None if they may differ. Uninitialised elements are 0."""
    name = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
    what = name.removeprefix("new_").removesuffix("_like")
    if what in ("zeros", "empty", "empty_strided"):
        return 0
    if what == "ones":
        return 1
    if what == "full":
        return node.args[2 if name.startswith("new_") else 1]
    return node.args[0] if what == "scalar_tensor" else None


def truth_of(mask: fx.Node) -> fx.Node | None:
    """Returns the truth values from which PyTorch makes the numbers of an attention mask; None if there are none."""
    if mask.target is not torch.ops.aten.where.self or mask.args[0].meta["val"].dtype is not torch.bool:
        return None
    seen, hidden = map(filler_of, mask.args[1:])
    return mask.args[0] if (seen, hidden) == (0, -math.inf) else None


def is_of_shape(node: fx.Node) -> bool:
    """Whether the result of a node depends only on shapes of tensors."""
    return getattr(node.target, "overloadpacket", None) in OF_SHAPES


def constant_of(node: fx.Node, constants: Mapping[fx.Node, Tensor]) -> Tensor:
    """Computes a node that depends only on constants; a result with equal elements takes no memory."""
    fake = node.meta["val"]
    if (filler := filler_of(node)) is not None:
        return torch.full((), filler, dtype=fake.dtype).expand(fake.shape)
    result = computed(node, constants)
    if isinstance(result, Tensor) and result.numel() > 1 and bool((result == result.flatten()[0]).all()):
        return result.flatten()[0].clone().expand(result.shape)
    return result


def check_type(value: Any, expected: Any) -> None:
    """Raises LocalError if a handle has another type than PyTorch's result."""
    if not isinstance(value, Handle) or not isinstance(expected, Tensor):
        return
    if (value.shape, value.type.dtype.name) != (tuple(expected.shape), dtype_name(expected)):
        own = f"{dtype_name(expected)}{list(expected.shape)}"
        raise LocalError(f"its operator gives {value.type}, and PyTorch {own}")


def type_of(tensor: Tensor) -> TensorType:
    """Returns the type of a tensor; raises LocalError if no operator has its data type."""
    name = dtype_name(tensor)
    if name not in DTYPES:
        raise LocalError(f"no operator has the data type {name}")
    return TensorType(DTYPES[name], tuple(tensor.shape))
