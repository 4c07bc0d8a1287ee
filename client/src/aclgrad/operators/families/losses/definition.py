"""Losses of each element by itself and their gradients.

`forward` returns the elements that the reduction adds up, each as the loss has it.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise.definition import rounded, sigmoid, widened
from aclgrad.operators.families.losses.spec import BATCH_MEAN, MEAN


def reduced(elements: Array, reduction: int) -> Array:
    """Divides by what the reduction divides by."""
    divisor = {MEAN: elements.size, BATCH_MEAN: elements.shape[0] if elements.ndim else 1}.get(reduction, 1)
    return np.asarray(elements / max(divisor, 1))


def binary_cross_entropy_backward(
    grad_output: Array, input: Array, target: Array, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    """The denominator is limited, as PyTorch does."""
    grad, x, t = widened(grad_output, input, target)
    with np.errstate(invalid="ignore", over="ignore"):
        slope = (x - t) / np.maximum(x * (1 - x), 1e-12)
        return reduced(grad * slope * (1 if weight is None else np.float64(weight)), reduction)


def binary_cross_entropy(
    grad_output: Array, input: Array, target: Array, weight: Array | None = None, reduction: int = MEAN
) -> Array:
    """By the logarithms of both probabilities."""
    losses = -(target * np.log(input) + (1 - np.float64(target)) * np.log(1 - input))
    return reduced(losses * (1 if weight is None else np.float64(weight)), reduction)


def binary_cross_entropy_with_logits_backward(
    grad_output: Array,
    input: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    """Of the positive and the negative part."""
    grad, x, t = widened(grad_output, input, target)
    positive = t * (1 if pos_weight is None else np.float64(pos_weight))
    slope = (1 - t) * sigmoid(x) - positive * sigmoid(-x)
    with np.errstate(invalid="ignore", over="ignore"):
        return reduced(grad * slope * (1 if weight is None else np.float64(weight)), reduction)


def binary_cross_entropy_with_logits(
    grad_output: Array,
    input: Array,
    target: Array,
    weight: Array | None = None,
    pos_weight: Array | None = None,
    reduction: int = MEAN,
) -> Array:
    """By softplus of the logits and of their opposites."""
    t = np.float64(target)
    positive = t * (1 if pos_weight is None else np.float64(pos_weight))
    losses = positive * np.logaddexp(0, -input) + (1 - t) * np.logaddexp(0, input)
    return reduced(losses * (1 if weight is None else np.float64(weight)), reduction)


def kl_div_backward(
    grad_output: Array, input: Array, target: Array, reduction: int = MEAN, log_target: bool = False
) -> Array:
    """The loss is linear."""
    grad, x, t = widened(grad_output, input, target)
    with np.errstate(over="ignore"):
        return reduced(np.broadcast_to(-(np.exp(t) if log_target else t) * grad, x.shape), reduction)


def kl_div(grad_output: Array, input: Array, target: Array, reduction: int = MEAN, log_target: bool = False) -> Array:
    """Without the part that does not depend on the input."""
    (t,) = widened(target)
    return reduced((np.exp(t) if log_target else t) * -input, reduction)


def l1_loss_backward(grad_output: Array, input: Array, target: Array, reduction: int = MEAN) -> Array:
    """0 where both are equal, and where one is not a number."""
    grad, x, t = widened(grad_output, input, target)
    with np.errstate(invalid="ignore"):
        return reduced(grad * ((x > t) * 1.0 - (x < t)), reduction)


def l1_loss(grad_output: Array, input: Array, target: Array, reduction: int = MEAN) -> Array:
    """The larger minus the smaller."""
    return reduced(np.maximum(input, target) - np.minimum(input, target), reduction)


def mse_loss_backward(grad_output: Array, input: Array, target: Array, reduction: int = MEAN) -> Array:
    """Of the square."""
    grad, x, t = widened(grad_output, input, target)
    with np.errstate(invalid="ignore"):
        return reduced(2 * (x - t) * grad, reduction)


def mse_loss(grad_output: Array, input: Array, target: Array, reduction: int = MEAN) -> Array:
    """By the binomial formula."""
    (t,) = widened(target)
    return reduced(input * input - 2 * input * t + t * t, reduction)


def smooth_l1_loss_backward(
    grad_output: Array, input: Array, target: Array, reduction: int = MEAN, beta: float = 1.0
) -> Array:
    """The difference is limited, and then divided."""
    grad, x, t = widened(grad_output, input, target)
    limit = rounded(beta)
    with np.errstate(invalid="ignore"):
        return reduced(grad * (np.clip(x - t, -limit, limit) / limit), reduction)


def smooth_l1_loss(grad_output: Array, input: Array, target: Array, reduction: int = MEAN, beta: float = 1.0) -> Array:
    """Squared below beta, and linear above."""
    size, limit = np.abs(input - target), rounded(beta)
    return reduced(np.where(size < limit, size * size / 2 / limit, size - limit / 2), reduction)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "binary_cross_entropy_backward": Definition(binary_cross_entropy_backward, binary_cross_entropy),
    "binary_cross_entropy_with_logits_backward": Definition(
        binary_cross_entropy_with_logits_backward, binary_cross_entropy_with_logits
    ),
    "kl_div_backward": Definition(kl_div_backward, kl_div),
    "l1_loss_backward": Definition(l1_loss_backward, l1_loss),
    "mse_loss_backward": Definition(mse_loss_backward, mse_loss),
    "smooth_l1_loss_backward": Definition(smooth_l1_loss_backward, smooth_l1_loss),
}
