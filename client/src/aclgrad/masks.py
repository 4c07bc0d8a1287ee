"""Max-pool masks: what CANN's MaxPool2dWithMask writes and its backward reads, and the argmax that they stand for.

An argmax is what PyTorch returns: for each pooled cell (n, c, oh, ow) the position ih * W + iw of the chosen cell in
the unpadded plane. A mask is an INT8 tensor of shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32) whose bytes mean

* INT32_PREFIX (Atlas A2 and A3, kernels larger than 1x1): the argmax as little-endian int32 at the start of the buffer;
  the rest is not used.
* UINT16_BITS (Atlas training products, and every 1x1 kernel): little-endian uint16 words of logical shape
  (N, ceil(C / 16), kH * kW, ceil(oH * oW / 16) + 1, 16) at the start of the buffer. Bit b (least significant first) of
  word (n, c1, k, p) says that channel 16 * c1 + b chose cell k = kh * kW + kw of the window of pooled cell
  p = oh * oW + ow.
"""

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from aclgrad.products import Product

Array = np.ndarray[Any, Any]

GROUP = 16
"""Pooled cells in a group, and channels in a word."""


class MaskLayout(Enum):
    """How the bytes of a mask are laid out."""

    INT32_PREFIX = "int32 prefix"
    UINT16_BITS = "uint16 bits"


def mask_layout(product: Product, kernel_size: tuple[int, int]) -> MaskLayout:
    """Returns the layout that a product reads and writes for a kernel."""
    has_prefix = product in (Product.ATLAS_A2, Product.ATLAS_A3) and kernel_size != (1, 1)
    return MaskLayout.INT32_PREFIX if has_prefix else MaskLayout.UINT16_BITS


@dataclass(frozen=True, slots=True)
class Pooling:
    """The geometry of a two-dimensional max pooling; pairs are (height, width)."""

    input_size: tuple[int, int]
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    ceil_mode: bool = False
    dilation: tuple[int, int] = (1, 1)

    def __post_init__(self) -> None:
        if min(*self.kernel_size, *self.stride, *self.dilation) < 1 or min(*self.input_size, *self.padding) < 0:
            limits = "kernel, stride and dilation are at least 1, size and padding at least 0"
            raise ValueError(f"{self} is not a valid pooling: {limits}")

    @classmethod
    def of(
        cls,
        input_size: Sequence[int],
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = (),
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        dilation: int | Sequence[int] = 1,
    ) -> "Pooling":
        """Takes one value for both axes or a pair, as PyTorch does; the default stride is the kernel's size."""
        kernel = pair(kernel_size)
        height, width = input_size
        has_stride = not (isinstance(stride, Sequence) and len(stride) == 0)
        steps = pair(stride) if has_stride else kernel
        return cls((height, width), kernel, steps, pair(padding), ceil_mode, pair(dilation))

    @property
    def output_size(self) -> tuple[int, int]:
        """The pooled height and width; 0 or less if the kernel does not fit."""
        return self._output_extent(0), self._output_extent(1)

    @property
    def span(self) -> tuple[int, int]:
        """The height and width of a window, from its first cell to its last."""
        (height, width), (down, across) = self.kernel_size, self.dilation
        return (height - 1) * down + 1, (width - 1) * across + 1

    @property
    def window_cells(self) -> int:
        return self.kernel_size[0] * self.kernel_size[1]

    def mask_shape(self, leading: tuple[int, ...]) -> tuple[int, ...]:
        """Returns the shape of the INT8 mask; `leading` is (N, C) or (C,)."""
        rows, columns = self.output_size
        groups = -(-rows * columns // GROUP)
        return (*leading, self.window_cells, (groups + 1) * 2 * GROUP)

    def _output_extent(self, axis: int) -> int:
        size, span = self.input_size[axis], self.span[axis]
        stride, padding = self.stride[axis], self.padding[axis]
        extent = (size + 2 * padding - span + (stride - 1 if self.ceil_mode else 0)) // stride + 1
        if self.ceil_mode and (extent - 1) * stride >= size + padding:
            # The last window would start in the padding on the far side.
            extent -= 1
        return extent


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """Returns (value, value) for one number, and a sequence of one or two numbers as a pair."""
    if isinstance(value, Sequence | np.ndarray):
        first, *rest = (operator.index(each) for each in value)
        return first, rest[0] if rest else first
    return operator.index(value), operator.index(value)


def argmax_of_input(input: Array, pooling: Pooling) -> tuple[Array, Array]:
    """Returns the pooled tensor and its int32 argmax; the first of equal values wins, in row-major window order."""
    height, width = pooling.input_size
    rows, columns = pooling.output_size
    best = np.full((*input.shape[:-2], rows, columns), -np.inf, np.promote_types(input.dtype, np.float32))
    argmax = np.zeros(best.shape, np.int32)
    unset = np.ones(best.shape, bool)
    for k in range(pooling.window_cells):
        y, x = _cells_of(pooling, k)
        inside = ((y >= 0) & (y < height))[:, None] & ((x >= 0) & (x < width))
        values = input[..., np.clip(y, 0, height - 1)[:, None], np.clip(x, 0, width - 1)].astype(best.dtype)
        better = inside & (unset | (values > best))
        best = np.where(better, values, best)
        argmax = np.where(better, (y[:, None] * width + x).astype(np.int32), argmax)
        unset &= ~inside
    return best.astype(input.dtype), argmax


def mask_of_argmax(argmax: Array, pooling: Pooling, layout: MaskLayout) -> Array:
    """Returns the INT8 mask of an argmax of shape (N, C, oH, oW) or (C, oH, oW), zero where nothing is stored."""
    mask = np.zeros(pooling.mask_shape(argmax.shape[:-2]), np.int8)
    stored = argmax.astype("<i4") if layout is MaskLayout.INT32_PREFIX else _words_of_argmax(argmax, pooling)
    data = stored.reshape(-1).view(np.int8)
    mask.reshape(-1)[: data.size] = data
    return mask


def argmax_of_mask(mask: Array, pooling: Pooling, layout: MaskLayout) -> Array:
    """Returns the int32 argmax that an INT8 mask stands for; -1 where a bit mask has no bit set."""
    leading = mask.shape[:-2]
    rows, columns = pooling.output_size
    flat = np.ascontiguousarray(mask).reshape(-1)
    if layout is MaskLayout.INT32_PREFIX:
        count = int(np.prod(leading)) * rows * columns
        return flat[: 4 * count].view("<i4").astype(np.int32).reshape(*leading, rows, columns)
    return _argmax_of_words(flat, leading, pooling)


def _cells_of(pooling: Pooling, k: int) -> tuple[Array, Array]:
    """Returns the rows and the columns of the k-th cell of every window; they may lie in the padding."""
    kh, kw = divmod(k, pooling.kernel_size[1])
    rows, columns = pooling.output_size
    y = np.arange(rows) * pooling.stride[0] - pooling.padding[0] + kh * pooling.dilation[0]
    x = np.arange(columns) * pooling.stride[1] - pooling.padding[1] + kw * pooling.dilation[1]
    return y, x


def _words_shape(leading: tuple[int, ...], pooling: Pooling) -> tuple[int, ...]:
    batch, channels = (1, *leading)[-2:]
    rows, columns = pooling.output_size
    return batch, -(-channels // GROUP), pooling.window_cells, (-(-rows * columns // GROUP) + 1) * GROUP


def _words_of_argmax(argmax: Array, pooling: Pooling) -> Array:
    width = pooling.input_size[1]
    batch, channels = (1, *argmax.shape[:-2])[-2:]
    cells = argmax.shape[-2] * argmax.shape[-1]
    words = np.zeros(_words_shape(argmax.shape[:-2], pooling), "<u2")
    flat = argmax.reshape(batch, channels, cells)
    for k in range(pooling.window_cells):
        y, x = _cells_of(pooling, k)
        chosen = flat == (y[:, None] * width + x).reshape(-1)
        # A cell in the padding has no position of its own: its number is that of a cell inside the plane.
        chosen &= (((y >= 0) & (y < pooling.input_size[0]))[:, None] & ((x >= 0) & (x < width))).reshape(-1)
        for channel in range(channels):
            bits = chosen[:, channel].astype("<u2") << (channel % GROUP)
            words[:, channel // GROUP, k, :cells] |= bits.astype("<u2")
    return words


def _argmax_of_words(flat: Array, leading: tuple[int, ...], pooling: Pooling) -> Array:
    shape = _words_shape(leading, pooling)
    words = flat[: 2 * int(np.prod(shape))].view("<u2").reshape(shape)
    batch, channels = (1, *leading)[-2:]
    rows, columns = pooling.output_size
    argmax = np.full((batch, channels, rows * columns), -1, np.int32)
    # Backwards, so that the first cell of the window wins.
    for k in reversed(range(pooling.window_cells)):
        y, x = _cells_of(pooling, k)
        position = (y[:, None] * pooling.input_size[1] + x).reshape(-1)
        for channel in range(channels):
            is_set = (words[:, channel // GROUP, k, : rows * columns] >> (channel % GROUP)) & 1
            argmax[:, channel] = np.where(is_set, position, argmax[:, channel])
    return argmax.reshape(*leading, rows, columns)
