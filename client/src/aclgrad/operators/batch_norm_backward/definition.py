"""Batch normalisation and its gradients."""

import numpy as np

from aclgrad.operators.definitions import Array


def backward(
    grad_output: Array,
    input: Array,
    weight: Array | None = None,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    save_mean: Array | None = None,
    save_invstd: Array | None = None,
    *,
    training: bool,
    eps: float,
) -> tuple[Array, Array, Array]:
    """Each channel by itself: every element contributes to the statistics of its channel when training."""
    gradient = np.zeros(input.shape)
    grad_weight, grad_bias = np.zeros(input.shape[1]), np.zeros(input.shape[1])
    for channel in range(input.shape[1]):
        if training:
            mean, invstd = _of(save_mean, channel), _of(save_invstd, channel)
        else:
            mean, invstd = (
                _of(running_mean, channel),
                1 / np.sqrt(_of(running_var, channel) + np.float64(np.float32(eps))),
            )
        grads = grad_output[:, channel].astype(np.float64)
        normalised = (input[:, channel].astype(np.float64) - mean) * invstd
        grad_bias[channel] = grads.sum()
        grad_weight[channel] = (grads * normalised).sum()
        if training and grads.size:
            grads = grads - (grad_bias[channel] + normalised * grad_weight[channel]) / grads.size
        gradient[:, channel] = (1.0 if weight is None else _of(weight, channel)) * invstd * grads
    return gradient, grad_weight, grad_bias


def _of(values: Array | None, channel: int) -> np.float64:
    if values is None:
        raise ValueError("save_mean and save_invstd are needed when training, running_mean and running_var otherwise")
    return np.float64(values[channel])


def forward(
    grad_output: Array,
    input: Array,
    weight: Array | None = None,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    save_mean: Array | None = None,
    save_invstd: Array | None = None,
    bias: Array | None = None,
    *,
    training: bool,
    eps: float,
) -> Array:
    """Normalised by the statistics of `input` itself when training, whatever was saved."""
    if not input.size:
        return np.zeros(input.shape)
    channels = np.moveaxis(input.astype(np.float64), 1, 0).reshape(input.shape[1], -1)
    if training:
        mean, variance = channels.mean(1), channels.var(1)
    else:
        assert running_mean is not None
        assert running_var is not None
        mean, variance = running_mean.astype(np.float64), running_var.astype(np.float64)
    scale = (1.0 if weight is None else weight) / np.sqrt(variance + np.float64(np.float32(eps)))
    shift = (0.0 if bias is None else bias) - mean * scale
    columns = (-1, *[1] * (input.ndim - 2))
    normalised: Array = input * scale.reshape(columns) + np.reshape(shift, columns)
    return normalised
