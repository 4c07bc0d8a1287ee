"""Upsampling of planes, by the cells that the gradients' definitions find, and pooling of boxes."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.roi_align_v2_backward.definition import value as roi_align
from aclgrad.operators.upsample_bilinear2d_backward_v2.definition import neighbours
from aclgrad.operators.upsample_nearest2d_backward.spec import nearest


def upsample_nearest2d(input: Array, output_size: Sequence[int], scales_h: float = 0.0, scales_w: float = 0.0) -> Array:
    """Takes the row and the column of each cell; legal scales make no difference."""
    rows, columns = (nearest(size, cells) for size, cells in zip(output_size, input.shape[2:], strict=True))
    return input.astype(np.float64).take(rows, 2).take(columns, 3)


def upsample_bilinear2d(
    input: Array,
    output_size: Sequence[int],
    align_corners: bool = False,
    scales_h: float = 0.0,
    scales_w: float = 0.0,
) -> Array:
    """Interpolates along one axis after the other; legal scales make no difference."""
    found = input.astype(np.float64)
    for axis, size in enumerate(output_size, 2):
        first, second, weight = neighbours(size, input.shape[axis], align_corners)
        shaped = weight.reshape(-1, *(1 for _ in range(3 - axis)))
        found = found.take(first, axis) * (1 - shaped) + found.take(second, axis) * shaped
    return found


DEFINITIONS: Final[Mapping[str, Definition]] = {
    "roi_align_v2": Definition(roi_align),
    "upsample_bilinear2d": Definition(upsample_bilinear2d),
    "upsample_nearest2d_v2": Definition(upsample_nearest2d),
}
