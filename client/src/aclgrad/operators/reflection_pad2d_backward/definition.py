"""Reflection padding over two dimensions and its gradient."""

from collections.abc import Sequence

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.pad import definition


def backward(grad_output: Array, input: Array | Sequence[int], padding: Sequence[int]) -> Array:
    """Each padded cell gives its gradient to the cell that it mirrors."""
    return definition.backward(grad_output, input, padding, definition.reflected)


def forward(grad_output: Array, input: Array, padding: Sequence[int]) -> Array:
    """numpy's reflect padding, then a crop for negative padding."""
    return definition.forward(input, padding, "reflect")
