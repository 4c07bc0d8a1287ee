"""Dropout by a mask of bits."""

import numpy as np

from aclgrad.operators.definitions import Array
from aclgrad.operators.dropout_do_mask.spec import KEEPS_ALL
from aclgrad.operators.families.elementwise.definition import widened


def value(input: Array, mask: Array, prob: float = 0.5) -> Array:
    """Unpacks the bits."""
    (x,) = widened(input)
    if prob <= KEEPS_ALL or prob == 1:
        return np.zeros_like(x) if prob == 1 else x
    keep = np.float64(np.asarray(1 - prob).astype(input.dtype))
    bits = np.unpackbits(mask, count=x.size, bitorder="little").reshape(x.shape)
    return np.where(bits == 1, x / keep, 0.0)
