"""GELU, exact or approximated, and its gradient."""

from aclgrad.operators._families.elementwise import gelu
from aclgrad.operators.definitions import Array


def backward(grad_output: Array, input: Array, approximate: str) -> Array:
    """The product rule; 0 and 1 times grad_output at the infinities."""
    return gelu.backward(grad_output, input, approximate)


def forward(grad_output: Array, input: Array, approximate: str) -> Array:
    """The input times the distribution of normal numbers, or its approximation."""
    return gelu.forward(input, approximate)
