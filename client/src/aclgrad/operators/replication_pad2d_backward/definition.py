"""Replication padding over two dimensions and its gradient."""

from collections.abc import Sequence

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.pad import definition


def backward(grad_output: Array, input: Array | Sequence[int], padding: Sequence[int]) -> Array:
    """Each padded cell gives its gradient to the cell that it is a copy of."""
    return definition.backward(grad_output, input, padding, definition.replicated)


def forward(grad_output: Array, input: Array, padding: Sequence[int]) -> Array:
    """numpy's edge padding, then a crop for negative padding."""
    return definition.forward(input, padding, "edge")
