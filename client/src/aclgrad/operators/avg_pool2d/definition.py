"""Average pooling in two dimensions."""

from collections.abc import Sequence

import numpy as np

from aclgrad.masks import Pooling
from aclgrad.operators.definitions import Array
from aclgrad.operators.families.pooling2d.definition import windows


def value(
    input: Array,
    kernel_size: Sequence[int],
    strides: Sequence[int] = (),
    paddings: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int = 0,
    cube_math_type: int = 0,
) -> Array:
    """The sum of every window over the sum of the same window on a plane of ones."""
    pooling = Pooling.of(input.shape[-2:], kernel_size, strides, paddings, ceil_mode)
    ones = np.ones(pooling.input_size)
    sums = windows(input.astype(np.float64), pooling, padding=0, beyond=0).sum((-2, -1))
    counts = windows(ones, pooling, padding=float(count_include_pad), beyond=0).sum((-2, -1))
    pooled: Array = sums / (divisor_override or counts)
    return pooled
