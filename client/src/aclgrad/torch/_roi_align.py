"""The forward pass of RoI align: torchvision's if it is loaded, otherwise plain operations of PyTorch."""

import math
from collections.abc import Sequence
from typing import Final

import torch
from torch import Tensor

_MOST_SAMPLES: Final = 2**22
"""Samples along one axis of a box, about 100 MB; without a sampling ratio there is one for each cell."""


def roi_align_shape(input: Tensor, boxes: Tensor, pooled_height: int, pooled_width: int, *_: object) -> Tensor:
    """Returns an empty tensor of the shape of the result."""
    return input.new_empty(boxes.shape[0], input.shape[1], pooled_height, pooled_width)


def roi_align(
    input: Tensor,
    boxes: Tensor,
    pooled_height: int,
    pooled_width: int,
    spatial_scale: float,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Returns the mean over the samples of every bin; boxes of images that do not exist give 0."""
    output = roi_align_shape(input, boxes, pooled_height, pooled_width)
    if not output.numel() or not input.numel():
        return output.zero_()
    # torchvision reads out of bounds for an image that does not exist.
    if _torchvision_has_it(input) and ((boxes[:, 0] >= 0) & (boxes[:, 0] < input.shape[0])).all():
        sampling = spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned
        result: Tensor = torch.ops.torchvision.roi_align(input, boxes, *sampling)
        return result
    pooled = (pooled_height, pooled_width)
    return torch.stack([_pool(input, box, pooled, spatial_scale, sampling_ratio, aligned) for box in boxes.tolist()])


def _torchvision_has_it(input: Tensor) -> bool:
    key = torch._C._dispatch_key_name(torch._C._dispatch_keys(input).highestPriorityTypeId())  # noqa: SLF001
    name = "torchvision::roi_align"
    return hasattr(torch.ops.torchvision, "roi_align") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key)  # noqa: SLF001


def _pool(
    input: Tensor, box: Sequence[float], pooled: tuple[int, int], scale: float, sampling_ratio: int, aligned: bool
) -> Tensor:
    """Returns the bins of one box, shape (channels, *pooled). Reads only the part of the image that the box covers."""
    images, channels, height, width = input.shape
    if not all(map(math.isfinite, box)) or not 0 <= box[0] < images:
        return input.new_zeros(channels, *pooled)
    left, top, right, bottom = (each * scale - (0.5 if aligned else 0.0) for each in box[1:])
    wide = torch.promote_types(input.dtype, torch.float32)
    bands = [
        _band(low, high, bins, size, sampling_ratio, aligned)
        for low, high, bins, size in ((top, bottom, pooled[0], height), (left, right, pooled[1], width))
    ]
    (rows, row_weights), (columns, column_weights) = bands
    cells = input[int(box[0]), :, rows, columns].to(wide)
    return (row_weights.to(cells) @ cells @ column_weights.to(cells).T).to(input.dtype)


def _band(low: float, high: float, bins: int, size: int, sampling_ratio: int, aligned: bool) -> tuple[slice, Tensor]:
    """Returns the cells of an axis under a box, and their weights in each bin, shape (bins, cells).

    A sample interpolates linearly between two neighbours, or is 0 far outside. A bin is the mean of its samples.
    """
    extent = high - low if aligned else max(high - low, 1.0)
    count = sampling_ratio if sampling_ratio > 0 else max(math.ceil(extent / bins), 0)
    if bins * count > _MOST_SAMPLES:
        raise ValueError(f"a box has {bins * count} samples along an axis; {_MOST_SAMPLES} are the most")
    samples = (torch.arange(count, dtype=torch.float64) + 0.5) / max(count, 1)
    positions = low + (torch.arange(bins, dtype=torch.float64)[:, None] + samples) * (extent / bins)
    shares = ((positions >= -1) & (positions <= size)) / max(count, 1)
    positions = positions.clamp(0, size - 1)
    first = int(positions.amin().floor()) if positions.numel() else 0
    last = min(int(positions.amax().floor()) + 1, size - 1) if positions.numel() else 0
    cells = positions.floor()
    upper = positions - cells
    offsets = cells.long() - first
    weights = torch.zeros(bins, last - first + 1, dtype=torch.float64)
    weights.scatter_add_(1, offsets, (1 - upper) * shares)
    weights.scatter_add_(1, (offsets + 1).clamp(max=last - first), upper * shares)
    return slice(first, last + 1), weights
