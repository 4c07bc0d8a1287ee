"""GELU in the approximation by a hyperbolic tangent, and its gradient."""

from aclgrad.operators._families.elementwise import gelu
from aclgrad.operators.definitions import Array


def backward(grad_output: Array, input: Array) -> Array:
    """The product rule; 0 and 1 times grad_output at the infinities."""
    return gelu.backward(grad_output, input, "tanh")


def forward(grad_output: Array, input: Array) -> Array:
    """Half of the input times 1 + tanh."""
    return gelu.forward(input, "tanh")
