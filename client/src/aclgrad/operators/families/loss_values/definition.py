"""Losses, and what the reduction makes of them."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.elementwise.definition import rounded, widened
from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM


def _reduced(losses: Array, reduction: int) -> Array:
    """Returns all losses, their mean or their sum; the mean of nothing is NaN."""
    if reduction == NONE:
        return losses
    return np.asarray(losses.sum() / (1 if reduction == SUM else losses.size or np.nan))


def mse_loss(input: Array, target: Array, reduction: int = MEAN) -> Array:
    """The square."""
    x, t = widened(input, target)
    return _reduced(np.square(x - t), reduction)


def smooth_l1_loss(input: Array, target: Array, reduction: int = MEAN, beta: float = 1.0) -> Array:
    """Squared below beta, and linear above."""
    x, t = widened(input, target)
    size, limit = np.abs(x - t), rounded(beta)
    return _reduced(np.where(size < limit, size * size / (2 * limit), size - limit / 2), reduction)


def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Array | None = None, pos_weight: Array | None = None, reduction: int = MEAN
) -> Array:
    """By softplus of the logits and of their opposites."""
    x, t = widened(input, target)
    positive = t * (1 if pos_weight is None else np.float64(pos_weight))
    with np.errstate(invalid="ignore"):
        losses = positive * np.logaddexp(0, -x) + (1 - t) * np.logaddexp(0, x)
    return _reduced(losses * (1 if weight is None else np.float64(weight)), reduction)


def nll_loss(
    input: Array, target: Array, weight: Array, reduction: int = MEAN, ignore_index: int = -100
) -> tuple[Array, Array]:
    """Target by target, each with the weight of its class; ignored ones have none."""
    rows, labels = np.atleast_2d(input.astype(np.float64)), np.atleast_1d(target).astype(np.int64)
    losses, weights = np.zeros(labels.shape), np.zeros(labels.shape)
    for row, label in enumerate(labels):
        if label != ignore_index:
            weights[row] = weight[label]
            losses[row] = -rows[row, label] * weights[row]
    if reduction == NONE:
        return losses.reshape(target.shape), np.zeros(())
    total = weights.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(losses.sum() / (total if reduction == MEAN else 1)), np.asarray(total)


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "binary_cross_entropy_with_logits": Definition(binary_cross_entropy_with_logits),
    "mse_loss": Definition(mse_loss),
    "nll_loss": Definition(nll_loss),
    "smooth_l1_loss": Definition(smooth_l1_loss),
}
