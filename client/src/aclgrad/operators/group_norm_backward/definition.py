"""Group normalisation and its gradients."""

from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array

EPSILON: Final = 1e-5
"""What the forward function adds to each variance; the gradients have it in `rstd`."""


def backward(
    grad_output: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    n: int,
    c: int,
    hxw: int,
    group: int,
    gamma: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Group by group: the mean and the deviation are functions of the group, too."""
    grads, inputs = (each.astype(np.float64).reshape(n, c, hxw) for each in (grad_output, input))
    means, factors = (each.astype(np.float64).reshape(n, group) for each in (mean, rstd))
    weights = np.ones((c, 1)) if gamma is None else gamma.astype(np.float64).reshape(c, 1)
    grad_input, grad_gamma, grad_beta = np.zeros((n, c, hxw)), np.zeros(c), np.zeros(c)
    of_group = c // group
    for sample, number in np.ndindex(n, group) if hxw and c else ():
        channels = slice(number * of_group, (number + 1) * of_group)
        normalised = (inputs[sample, channels] - means[sample, number]) * factors[sample, number]
        weighted = grads[sample, channels] * weights[channels]
        along = normalised * (weighted * normalised).mean()
        grad_input[sample, channels] = factors[sample, number] * (weighted - weighted.mean() - along)
        grad_gamma[channels] += (grads[sample, channels] * normalised).sum(1)
        grad_beta[channels] += grads[sample, channels].sum(1)
    return grad_input.reshape(input.shape), grad_gamma, grad_beta


def forward(
    grad_output: Array,
    input: Array,
    mean: Array,
    rstd: Array,
    n: int,
    c: int,
    hxw: int,
    group: int,
    gamma: Array | None = None,
    bias: Array | None = None,
) -> Array:
    """Normalises by the groups' own means and variances."""
    if not input.size:
        return np.zeros(input.shape)
    groups = input.reshape(n, group, c // group * hxw)
    centred = groups - groups.mean(2, keepdims=True)
    normalised = (centred / np.sqrt(np.square(centred).mean(2, keepdims=True) + EPSILON)).reshape(n, c, hxw)
    scaled = normalised * (1.0 if gamma is None else gamma.reshape(c, 1))
    return np.asarray(scaled + (0.0 if bias is None else bias.reshape(c, 1))).reshape(input.shape)
