"""Batch normalisation."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.elementwise.definition import rounded, widened


def value(
    input: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> tuple[Array, Array, Array, Array]:
    """Channel by channel; when training, the running statistics move towards those of the batch."""
    (wide,) = widened(input)
    means, variances = widened(running_mean, running_var)
    new_means, new_variances = means.copy(), variances.copy()
    output, share = np.zeros(input.shape), rounded(momentum)
    for channel in range(input.shape[1]):
        elements = wide[:, channel]
        if training:
            new_means[channel] = (1 - share) * means[channel] + share * elements.mean()
            new_variances[channel] = (1 - share) * variances[channel] + share * elements.var(ddof=1)
            means[channel], variances[channel] = elements.mean(), elements.var()
        factor = 1.0 if weight is None else np.float64(weight[channel])
        shift = 0.0 if bias is None else np.float64(bias[channel])
        output[:, channel] = (elements - means[channel]) / np.sqrt(variances[channel] + rounded(eps)) * factor + shift
    return output, new_means, new_variances, means if training else np.zeros(0)


def inside(
    input: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    *,
    training: bool,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """The reciprocal deviation of each channel of the batch."""
    if not training:
        return np.zeros(0)
    (wide,) = widened(input)
    axes = tuple(axis for axis in range(input.ndim) if axis != 1)
    reciprocals: Array = 1 / np.sqrt(wide.var(axes) + rounded(eps))
    return reciprocals
