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


def rounded(number: float) -> float:
    """Returns an attribute as devices read it."""
    return float(np.float32(number))


def elu_backward(
    grad_output: Array,
    self_or_result: Array,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
    is_result: bool = False,
) -> Array:
    """At 0 the slope is that of negative numbers, and where the input is not a number that of positive ones."""
    grad, x = widened(grad_output, self_or_result)
    below, above, inner = rounded(alpha) * rounded(scale), rounded(scale), rounded(input_scale)
    with np.errstate(over="ignore", invalid="ignore"):
        slope = x + below if is_result else below * np.exp(np.where(x > 0, 0, x * inner))
        return np.where(x <= 0, grad * (inner * slope), grad * above)


def shifted_elu(
    grad_output: Array,
    self_or_result: Array,
    input: Array,
    alpha: float = 1.0,
    scale: float = 1.0,
    input_scale: float = 1.0,
    is_result: bool = False,
) -> Array:
    """Returns the function at `input` beyond what it was applied to."""
    at = self_or_result.astype(np.float64)
    below, above, inner = rounded(alpha) * rounded(scale), rounded(scale), rounded(input_scale)
    if is_result:
        at = np.where(at > 0, at / above, np.log(np.minimum(at, 0) / below + 1) / inner)
    return np.where(at + input > 0, above * (at + input), below * np.expm1(inner * np.minimum(at + input, 0)))


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


def hardshrink_backward(grad_output: Array, input: Array, lambd: float = 0.5) -> Array:
    """The gradient passes where the size is larger, and where the input is not a number."""
    grad, x = widened(grad_output, input)
    return np.where(np.abs(x) <= rounded(lambd), 0, grad)


def hardshrink(grad_output: Array, input: Array, lambd: float = 0.5) -> Array:
    """Keeps what is larger."""
    return np.asarray(input * (np.abs(input) > rounded(lambd)))


def softshrink(grad_output: Array, input: Array, lambd: float = 0.5) -> Array:
    """Moves the input towards 0, but not beyond."""
    return np.asarray(input - np.clip(input, -rounded(lambd), rounded(lambd)))


def hardsigmoid_backward(grad_output: Array, input: Array) -> Array:
    """The slope is 0 at both kinks, and where the input is not a number."""
    grad, x = widened(grad_output, input)
    return np.where(np.abs(x) < 3, grad / 6, 0)


def hardsigmoid(grad_output: Array, input: Array) -> Array:
    """Clips."""
    return np.asarray(np.clip(input / 6 + 0.5, 0, 1))


def hardtanh_backward(grad_output: Array, input: Array, min: float = -1.0, max: float = 1.0) -> Array:
    """The slope is 0 at both kinks, and 1 where the input is not a number."""
    grad, x = widened(grad_output, input)
    return np.where((x <= rounded(min)) | (x >= rounded(max)), 0, grad)


def hardtanh(grad_output: Array, input: Array, min: float = -1.0, max: float = 1.0) -> Array:
    """Clips."""
    return np.asarray(np.clip(input, rounded(min), rounded(max)))


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
    return np.where(x > 0, grad, grad * rounded(negative_slope))


def leaky_relu(grad_output: Array, input: Array, negative_slope: float, self_is_result: bool = False) -> Array:
    """Adds both halves; the result has the signs of the input if the slope is above 0."""
    return np.asarray(np.maximum(input, 0) + rounded(negative_slope) * np.minimum(input, 0))


def log_sigmoid_backward(grad_output: Array, input: Array, buffer: object) -> Array:
    """The sigmoid of the opposite number."""
    grad, x = widened(grad_output, input)
    return np.asarray(grad * sigmoid(-x))


def log_sigmoid(grad_output: Array, input: Array, buffer: object) -> Array:
    """Without overflow."""
    return np.asarray(np.minimum(input, 0) - np.log1p(np.exp(-np.abs(input))))


def mish_backward(grad_output: Array, input: Array) -> Array:
    """The product rule; not a number at both infinities."""
    grad, x = widened(grad_output, input)
    # 1 - tanh^2 of softplus, without cancellation.
    tangent = np.tanh(np.logaddexp(0, x))
    rest = 1 / np.cosh(np.minimum(np.logaddexp(0, x), 700)) ** 2
    with np.errstate(invalid="ignore"):
        return np.asarray(grad * (tangent + x * sigmoid(x) * rest))


def mish(grad_output: Array, input: Array) -> Array:
    """By the rational form of tanh(log(y)), with y = 1 + exp(input)."""
    square = (1 + np.exp(input)) ** 2
    return np.asarray(input * (square - 1) / (square + 1))


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


def softplus_backward(grad_output: Array, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """Above the threshold, the slope is 1."""
    grad, x = widened(grad_output, input)
    product = x * rounded(beta)
    return np.where(product > rounded(threshold), grad, grad * sigmoid(product))


def softplus(grad_output: Array, input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """The logarithm, or the input itself."""
    product = input * rounded(beta)
    curve = np.log1p(np.exp(np.minimum(product, rounded(threshold)))) / rounded(beta)
    return np.where(product > rounded(threshold), input, curve)


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
    return np.where(x <= rounded(threshold), 0, grad)


def threshold(grad_output: Array, input: Array, threshold: float) -> Array:
    """Puts a constant in the place of what is not above the threshold; the threshold itself, as ReLU."""
    return np.maximum(input, rounded(threshold))


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "elu_backward": Definition(elu_backward, shifted_elu),
    "gelu_backward": Definition(gelu_backward, gelu),
    "gelu_backward_v2": Definition(gelu_backward_v2, gelu_v2),
    "hardshrink_backward": Definition(hardshrink_backward, hardshrink),
    "hardsigmoid_backward": Definition(hardsigmoid_backward, hardsigmoid),
    "hardtanh_backward": Definition(hardtanh_backward, hardtanh),
    "hardswish_backward": Definition(hardswish_backward, hardswish),
    "leaky_relu_backward": Definition(leaky_relu_backward, leaky_relu),
    "log_sigmoid_backward": Definition(log_sigmoid_backward, log_sigmoid),
    "mish_backward": Definition(mish_backward, mish),
    "sigmoid_backward": Definition(sigmoid_backward, shifted_sigmoid),
    "silu_backward": Definition(silu_backward, silu),
    "softplus_backward": Definition(softplus_backward, softplus),
    "softshrink_backward": Definition(hardshrink_backward, softshrink),
    "tanh_backward": Definition(tanh_backward, shifted_tanh),
    "threshold_backward": Definition(threshold_backward, threshold),
}
