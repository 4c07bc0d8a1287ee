"""Removes from a functional graph: copies, strides of memory, and unused nodes."""

from typing import Final

import torch
from torch import Tensor, fx

from aclgrad.errors import InvalidFieldError
from aclgrad.torch.step.drawing import is_random

aten: Final = torch.ops.aten
_ALIASES: Final = frozenset(getattr(aten, name).default for name in ("alias", "clone", "detach", "lift_fresh_copy"))
"""Functions that return their input in a functional graph."""


def drop_aliases(graph: fx.Graph) -> None:
    """Replaces nodes that only return their input."""
    for node in list(graph.nodes):
        if node.target in _ALIASES:
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def drop_strides(graph: fx.Graph) -> None:
    """Replaces views by strides that only reshape, because strides belong to PyTorch's own memory."""
    for node in list(graph.nodes):
        if node.target is aten.as_strided.default and _is_same_memory(node.args[0], node):
            _reshape(graph, node, node.args[0])
        elif node.target is aten.as_strided_scatter.default and _is_same_memory(node.args[0], node.args[1]):
            _reshape(graph, node, node.args[1])


def _is_same_memory(whole: fx.Node, part: fx.Node) -> bool:
    tensors: list[Tensor] = [whole.meta["val"], part.meta["val"]]
    is_whole = tensors[0].numel() == tensors[1].numel() and tensors[1].storage_offset() == 0
    return is_whole and all(each.is_contiguous() for each in tensors)


def _reshape(graph: fx.Graph, node: fx.Node, of: fx.Node) -> None:
    with graph.inserting_before(node):
        made = graph.call_function(aten.view.default, (of, list(node.meta["val"].shape)))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made)
    graph.erase_node(node)


def drop_unused(graph: fx.Graph) -> None:
    """Drops unused nodes, profilers' marks included, except those that draw random numbers.

    Raises InvalidFieldError if a node changes an input: the caller's tensor would not change.
    """
    for node in reversed(graph.nodes):
        if node.op != "call_function" or node.users:
            continue
        if node.target is aten.copy_.default and node.args[0].op == "placeholder":
            what = "changes a parameter or a tensor of the batch in place"
            raise InvalidFieldError.at("step", what, "change a clone of it, or have it as a buffer")
        if not is_random(node.target):
            graph.erase_node(node)
