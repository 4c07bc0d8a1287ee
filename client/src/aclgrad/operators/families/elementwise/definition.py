"""Elementwise functions and their gradients."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition, wide

_SCALE: Final = math.sqrt(2 / math.pi)
_CUBE: Final = 0.044715
_erfc: Any = np.vectorize(math.erfc, otypes=[np.float64])


def widened(*arrays: Array) -> list[Array]:
    """Returns the arrays in float64, or complex128."""
    return [np.asarray(each, wide(each)) for each in arrays]


def sigmoid(x: Array) -> Array:
    """Returns 1 / (1 + exp(-x)) of real numbers, which overflows for none."""
    return np.exp(-np.logaddexp(0, -x))


def gelu_backward_v2(grad_output: Array, input: Array, approximate: str) -> Array:
    """The product rule. The derivative is 0 or 1 beyond 30, also at infinity."""
    grad, x = widened(grad_output, input)
    x = np.clip(x, -30, 30)
    if approximate == "none":
        density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
        return np.asarray(grad * (0.5 * _erfc(-x / math.sqrt(2)) + x * density))
    tangent = np.tanh(_SCALE * (x + _CUBE * x**3))
    slope = 0.5 * x * (1 - tangent**2) * _SCALE * (1 + 3 * _CUBE * x**2)
    return np.asarray(grad * (0.5 * (1 + tangent) + slope))


def gelu_v2(grad_output: Array, input: Array, approximate: str) -> Array:
    """The input times the distribution of normal numbers, or its approximation."""
    if approximate == "none":
        return np.asarray(input * 0.5 * _erfc(-input / math.sqrt(2)))
    return np.asarray(0.5 * input * (1 + np.tanh(_SCALE * (input + _CUBE * input**3))))


def gelu_backward(grad_output: Array, input: Array) -> Array:
    """The product rule; 0 and 1 times grad_output at the infinities."""
    return gelu_backward_v2(grad_output, input, "tanh")


def gelu(grad_output: Array, input: Array) -> Array:
    """Half of the input times 1 + tanh."""
    return gelu_v2(grad_output, input, "tanh")


def hardswish_backward(grad_output: Array, input: Array) -> Array:
    """At both kinks the slope is that of the middle."""
    grad, x = widened(grad_output, input)
    with np.errstate(invalid="ignore"):
        return np.where(x < -3, 0, np.where(x > 3, grad, grad * (x / 3 + 0.5)))


def hardswish(grad_output: Array, input: Array) -> Array:
    """Clips what the input is multiplied by."""
    return np.asarray(input * np.clip(input + 3, 0, 6) / 6)


def leaky_relu_backward(grad_output: Array, input: Array, negative_slope: float, self_is_result: bool = False) -> Array:
    """At 0, and where the input is not a number, the slope is that of negative numbers."""
    grad, x = widened(grad_output, input)
    return np.where(x > 0, grad, grad * float(np.float32(negative_slope)))


def leaky_relu(grad_output: Array, input: Array, negative_slope: float, self_is_result: bool = False) -> Array:
    """Adds both halves; the result has the signs of the input if the slope is above 0."""
    return np.asarray(np.maximum(input, 0) + float(np.float32(negative_slope)) * np.minimum(input, 0))


def sigmoid_backward(grad_output: Array, output: Array) -> Array:
    """The derivative of the sigmoid is a polynomial of its value."""
    grad, y = widened(grad_output, output)
    return np.asarray(grad * ((1 - y) * y))


def shifted_sigmoid(grad_output: Array, output: Array, input: Array) -> Array:
    """Returns the output at `input` beyond the place where it is `output`."""
    y = output.astype(np.float64)
    return sigmoid(np.log(y / (1 - y)) + input)


def silu_backward(grad_output: Array, input: Array) -> Array:
    """The product rule; not a number at both infinities."""
    grad, x = widened(grad_output, input)
    with np.errstate(invalid="ignore"):
        return np.asarray(grad * sigmoid(x) * (1 + x * sigmoid(-x)))


def silu(grad_output: Array, input: Array) -> Array:
    """Divides the input by 1 + exp(-input)."""
    return np.asarray(input / (1 + np.exp(-input)))


def tanh_backward(grad_output: Array, output: Array) -> Array:
    """The derivative of the tangent is a polynomial of its value."""
    grad, y = widened(grad_output, output)
    return np.asarray(grad * (1 - y * y))


def shifted_tanh(grad_output: Array, output: Array, input: Array) -> Array:
    """Returns the output at `input` beyond the place where it is `output`."""
    return np.asarray(np.tanh(np.arctanh(output.astype(np.float64)) + input))


def threshold_backward(grad_output: Array, input: Array, threshold: float) -> Array:
    """The gradient passes where the function does, and where the input is not a number."""
    grad, x = widened(grad_output, input)
    return np.where(x <= float(np.float32(threshold)), 0, grad)


def threshold(grad_output: Array, input: Array, threshold: float) -> Array:
    """Puts a constant in the place of what is not above the threshold; the threshold itself, as ReLU."""
    return np.maximum(input, float(np.float32(threshold)))


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "gelu_backward": Definition(gelu_backward, gelu),
    "gelu_backward_v2": Definition(gelu_backward_v2, gelu_v2),
    "hardswish_backward": Definition(hardswish_backward, hardswish),
    "leaky_relu_backward": Definition(leaky_relu_backward, leaky_relu),
    "sigmoid_backward": Definition(sigmoid_backward, shifted_sigmoid),
    "silu_backward": Definition(silu_backward, silu),
    "tanh_backward": Definition(tanh_backward, shifted_tanh),
    "threshold_backward": Definition(threshold_backward, threshold),
}
