"""Losses of classes and their gradients. `forward` returns each target's part of the loss."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.losses.spec import MEAN


def _places(target: Array, classes: int, ignored: int) -> Array:
    """Returns 1 at the class of each target and 0 elsewhere, with the classes along the last axis."""
    is_class = target.astype(np.int64)[..., None] == np.arange(classes)
    return np.asarray(is_class & (target.astype(np.int64) != ignored)[..., None], np.float64)


def nll_loss_backward(
    grad_output: Array,
    input: Array,
    target: Array,
    weight: Array,
    total_weight: Array,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Array:
    """A weight at each target's class."""
    axis = min(1, input.ndim - 1)
    places = np.moveaxis(_places(target, input.shape[axis], ignore_index), -1, axis)
    by_class = weight.astype(np.float64).reshape(-1, *(1,) * (input.ndim - axis - 1))
    # Of pixels and rows; one value is of all of them.
    grad = grad_output.astype(np.float64)
    grad = grad.reshape(()) if grad.size == 1 else np.expand_dims(grad, axis)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.broadcast_to(-grad * by_class, input.shape)
        scaled = each / total_weight.astype(np.float64).reshape(()) if reduction == MEAN else each
    return np.where(places > 0, scaled, 0.0)


def nll_loss(
    grad_output: Array,
    input: Array,
    target: Array,
    weight: Array,
    total_weight: Array,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Array:
    """Takes the input at each target."""
    axis = min(1, input.ndim - 1)
    is_used = target.astype(np.int64) != ignore_index
    at = np.where(is_used, target, 0).astype(np.int64)
    taken = (
        np.take_along_axis(input, np.expand_dims(at, axis), axis).squeeze(axis) if input.size else np.zeros(at.shape)
    )
    losses = np.where(is_used, -taken * weight.astype(np.float64)[at], 0.0) if weight.size else np.zeros(at.shape)
    return np.asarray(losses / ((float(total_weight) or 1.0) if reduction == MEAN else 1.0))


def _weights(
    target: Array, weight: Array | None, classes: int, ignored: int, reduction: str
) -> tuple[Array, Array, float]:
    """Returns the weight of each class, of each target, and what the reduction divides by."""
    by_class = np.ones(classes) if weight is None else weight.astype(np.float64)
    of_targets = _places(target, classes, ignored) @ by_class
    return by_class, of_targets, float(of_targets.sum()) if reduction == "mean" else 1.0


def cross_entropy_loss_grad(
    grad_output: Array,
    log_prob: Array,
    target: Array,
    weight: Array | None = None,
    grad_zloss: Array | None = None,
    lse_for_zloss: Array | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
) -> Array:
    """The gradient of the logarithms, taken through softmax."""
    rows, classes = log_prob.shape
    by_class, of_targets, total = _weights(target, weight, classes, ignore_index, reduction)
    grad = np.broadcast_to(grad_output.astype(np.float64).reshape(-1, 1), (rows, 1))
    share = label_smoothing / max(classes, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        of_target = grad * (1 - label_smoothing) / total * of_targets[:, None] * _places(target, classes, ignore_index)
        of_logarithms = -of_target - grad * share / total * by_class
        whole = of_logarithms - np.exp(log_prob.astype(np.float64)) * of_logarithms.sum(1, keepdims=True)
    return np.where((target.astype(np.int64) != ignore_index)[:, None], whole, 0.0)


def cross_entropy_loss(
    grad_output: Array,
    log_prob: Array,
    target: Array,
    input: Array,
    weight: Array | None = None,
    grad_zloss: Array | None = None,
    lse_for_zloss: Array | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
) -> Array:
    """Of logits at `input` beyond the logarithms."""
    rows, classes = log_prob.shape
    by_class, of_targets, total = _weights(target, weight, classes, ignore_index, reduction)
    logits = log_prob.astype(np.float64) + input
    logarithms = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True, initial=-np.inf)
    of_target = (logarithms * _places(target, classes, ignore_index)).sum(1) * of_targets
    of_all = (logarithms * by_class).mean(1) if classes else np.zeros(rows)
    losses = -(1 - label_smoothing) * of_target - label_smoothing * of_all
    return np.where(target.astype(np.int64) != ignore_index, losses, 0.0) / (total or 1.0)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "cross_entropy_loss_grad": Definition(cross_entropy_loss_grad, cross_entropy_loss),
    "nll_loss2d_backward": Definition(nll_loss_backward, nll_loss),
    "nll_loss_backward": Definition(nll_loss_backward, nll_loss),
}
