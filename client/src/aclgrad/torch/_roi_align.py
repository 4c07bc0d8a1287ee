"""The forward pass of RoI align in plain operations of PyTorch, because torchvision may be absent."""

import torch
from torch import Tensor


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
    image = boxes[:, 0].floor().long()
    left, top, right, bottom = (boxes[:, 1:] * spatial_scale - (0.5 if aligned else 0.0)).unbind(1)
    rows, row_weights = _neighbours(top, bottom, pooled_height, input.shape[2], sampling_ratio, aligned)
    columns, column_weights = _neighbours(left, right, pooled_width, input.shape[3], sampling_ratio, aligned)
    row_weights = row_weights * ((image >= 0) & (image < input.shape[0]))[:, None, None, None]
    image = image.clamp(0, input.shape[0] - 1)[:, None, None]
    samples = torch.zeros((), dtype=input.dtype, device=input.device)
    for y, weight_y in zip(rows, row_weights.unbind(1), strict=True):
        for x, weight_x in zip(columns, column_weights.unbind(1), strict=True):
            cells = input[image, :, y.flatten(1)[:, :, None], x.flatten(1)[:, None, :]]
            samples = samples + cells * weight_y.flatten(1)[:, :, None, None] * weight_x.flatten(1)[:, None, :, None]
    bins = samples.unflatten(2, (pooled_width, -1)).unflatten(1, (pooled_height, -1)).sum((2, 4))
    return bins.movedim(-1, 1).contiguous()


def _neighbours(
    low: Tensor, high: Tensor, bins: int, size: int, sampling_ratio: int, aligned: bool
) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Returns the two cells around every sample of an axis, shape (boxes, bins, samples), and their weights.

    The weights are shares of a bin's mean, shape (boxes, 2, bins, samples); a sample far outside has none.
    """
    extent = high - low if aligned else (high - low).clamp(min=1.0)
    count = torch.full_like(extent, sampling_ratio) if sampling_ratio > 0 else (extent / bins).ceil().clamp(min=0)
    # Every box gets as many samples as the largest one has; those that a smaller box does not have are masked.
    sample = torch.arange(int(count.max()), device=low.device)
    offset = (sample + 0.5) / count.clamp(min=1)[:, None]
    position = low[:, None, None] + (torch.arange(bins, device=low.device)[:, None] + offset[:, None]) * (
        extent[:, None, None] / bins
    )
    counts = (position >= -1) & (position <= size) & (sample < count[:, None, None])
    position = position.clamp(0, size - 1)
    cell = position.floor()
    upper = position - cell
    weights = torch.stack([1 - upper, upper], 1) * (counts / count.clamp(min=1)[:, None, None])[:, None]
    index = cell.long()
    return (index, (index + 1).clamp(max=size - 1)), weights
