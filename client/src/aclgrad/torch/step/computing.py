"""Computes nodes of a traced graph by PyTorch."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from operator import getitem
from typing import Any, Final

import torch
from torch import Tensor, fx

from aclgrad.torch.step.drawing import drawn, is_random

_OF_MEMORY: Final = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_scatter.default)
_VIEWS: Final = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)  # noqa: SLF001 - ATen's name


@contextmanager
def as_traced() -> Iterator[None]:
    """Turns autocast off within the block: it was applied during the trace."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False):
        yield


def computed(node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """Computes a node by PyTorch."""
    if node.target is getitem:
        return values[node.args[0]][node.args[1]]
    if is_random(node.target):
        return drawn(node, values)
    # The graph has no copies, so a tensor's memory may be in another order than before.
    value_of = partial(_laid_out, values=values) if node.target in _OF_MEMORY else values.__getitem__
    args, options = fx.node.map_arg((node.args, node.kwargs), value_of)
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:  # noqa: SLF001
        # Values of only captured tensors are changed in place; the graph goes on with the result.
        args = (args[0].clone(memory_format=torch.contiguous_format), *args[1:])
    function = torch.reshape if node.target in _VIEWS else node.target
    return function(*args, **options)


def _laid_out(node: fx.Node, values: Mapping[fx.Node, Any]) -> Tensor:
    """Returns the value of a node in its original memory order."""
    like = node.meta["val"]
    return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype).copy_(values[node])
