"""The rotary position embedding and its gradients."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.elementwise.definition import widened


def _pairs(columns: int, mode: int) -> tuple[Array, Array]:
    """Returns the places of what rotates together: halves, or even elements and the next ones."""
    places = np.arange(columns)
    return (places[0::2], places[1::2]) if mode else (places[: columns // 2], places[columns // 2 :])


def _summed(terms: Array, shape: tuple[int, ...]) -> Array:
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return np.asarray(terms.sum(axes, keepdims=True))


def backward(
    dy: Array, cos: Array, sin: Array, x: Array | None = None, mode: int = 0
) -> tuple[Array, Array | None, Array | None]:
    """Rotates the gradient back. Without x there are no gradients of cos and sin."""
    grad, cosines, sines = widened(dy, cos, sin)
    first, second = _pairs(dy.shape[-1], mode)
    dx = np.zeros(dy.shape)
    dx[..., first] = cosines[..., first] * grad[..., first] + sines[..., second] * grad[..., second]
    dx[..., second] = cosines[..., second] * grad[..., second] - sines[..., first] * grad[..., first]
    if x is None:
        return dx, None, None
    (wide,) = widened(x)
    rotated = np.zeros(dy.shape)
    rotated[..., first], rotated[..., second] = -wide[..., second], wide[..., first]
    return dx, _summed(grad * wide, cos.shape), _summed(grad * rotated, sin.shape)


def forward(dy: Array, cos: Array, sin: Array, x: Array, mode: int = 0) -> Array:
    """Rotates by a matrix that changes places and signs."""
    rotation = np.zeros((x.shape[-1], x.shape[-1]))
    for first, second in zip(*_pairs(x.shape[-1], mode), strict=True):
        rotation[second, first], rotation[first, second] = -1, 1
    return np.asarray(x * cos + x @ rotation * sin)
