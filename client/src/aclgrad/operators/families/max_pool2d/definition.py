"""Max pooling in two dimensions, with and without the argmax."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from aclgrad.masks import Pooling, mask_layout, mask_of_argmax
from aclgrad.operators.definitions import Array, Definition
from aclgrad.operators.families.pooling2d.definition import windows
from aclgrad.products import Product


def _pooled(
    input: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Array, Array]:
    """The largest of each window's cells: the first one of several, or of NaN the last one."""
    pooling = Pooling.of(input.shape[-2:], kernel_size, stride, padding, ceil_mode, dilation)
    places = np.arange(input.shape[-2] * input.shape[-1], dtype=np.float64).reshape(input.shape[-2:])
    cells = windows(input.astype(np.float64), pooling, -np.inf, -np.inf)
    cells = cells.reshape(*cells.shape[:-2], pooling.window_cells)
    chosen = windows(places, pooling, -1, -1).reshape(*cells.shape[-3:])
    largest = cells.max(-1)
    is_first = (cells == largest[..., None]) & (chosen >= 0)
    found = np.argmax(is_first, -1)
    is_number = ~np.isnan(largest)
    last = pooling.window_cells - 1 - np.argmax(np.isnan(cells)[..., ::-1], -1)
    found = np.where(is_number, found, last)
    indices = np.take_along_axis(np.broadcast_to(chosen, cells.shape), found[..., None], -1)[..., 0]
    return largest, indices.astype(np.int64)


def _maxima(
    input: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Array:
    """The same without the argmax, which only the device has."""
    return _pooled(input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def _mask(input: Array, **geometry: Any) -> Array:
    """The argmax as the mask of Atlas A2."""
    pooling = Pooling.of(input.shape[-2:], **geometry)
    return mask_of_argmax(_pooled(input, **geometry)[1], pooling, mask_layout(Product.ATLAS_A2, pooling.kernel_size))


DEFINITIONS: Final = {
    "max_pool2d_with_indices": Definition(_pooled),
    "max_pool2d_with_mask": Definition(_maxima, inside=_mask),
}
