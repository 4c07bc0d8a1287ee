"""The definition of each operator in float64 numpy, under its wire name: slow, plain, and right.

Each takes the inputs by wire name (for a shape-only input an array or its shape) and the attributes, and returns the
gradient in float64. What the formulas are is told by the operator's spec; these functions are written from them
cell by cell, so that they share no shortcut with any kernel.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aclgrad.wire.messages import AttributeValue

Array = np.ndarray[Any, Any]


def define(
    operator: str, inputs: Mapping[str, Array | Sequence[int]], attributes: Mapping[str, AttributeValue]
) -> Array:
    """Returns the gradient that the operator's definition gives."""
    definition = globals()[operator]
    renamed = {"input" if name == "self" else name: value for name, value in inputs.items()}
    gradient: Array = definition(**renamed, **attributes)
    return gradient


def adaptive_avg_pool2d_backward(grad_output: Array, input: Array | Sequence[int]) -> Array:
    """Each cell of a window receives the window's gradient divided by the number of its cells."""
    gradient = np.zeros(_shape(input))
    height, width = gradient.shape[-2:]
    rows, columns = grad_output.shape[-2:]
    for i in range(rows):
        top, bottom = i * height // rows, -(-(i + 1) * height // rows)
        for j in range(columns):
            left, right = j * width // columns, -(-(j + 1) * width // columns)
            count = (bottom - top) * (right - left)
            if count:
                share = grad_output[..., i, j].astype(np.float64) / count
                gradient[..., top:bottom, left:right] += share[..., None, None]
    return gradient


def _shape(input: Array | Sequence[int]) -> tuple[int, ...]:
    return tuple(input.shape if isinstance(input, np.ndarray) else input)
