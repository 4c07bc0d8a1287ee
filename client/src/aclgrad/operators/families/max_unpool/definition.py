"""The gradient of max unpooling."""

import math
from collections.abc import Sequence

import numpy as np

from aclgrad.operators.definitions import Array, shape_of


def gather(grad_output: Array, input: Array | Sequence[int], indices: Array, axes: int) -> Array:
    """Each cell takes the gradient of the cell of its plane, or volume, that it was written to."""
    planes = math.prod(indices.shape[:-axes])
    given, cells = (each.reshape(planes, math.prod(each.shape[-axes:])) for each in (grad_output, indices))
    return np.take_along_axis(given, cells.astype(np.int64), 1).reshape(shape_of(input))
