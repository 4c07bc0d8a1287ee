"""Functions that take elements of a tensor from chosen places: pads, scaled images, regions, points and indices."""

from typing import Final

import torch

from aclgrad.torch._folding import call_each
from aclgrad.torch._roi_align import roi_align, roi_align_shape
from aclgrad.torch._rows.row import Operation, without_batch

aten: Final = torch.ops.aten

_ROI_ALIGN: Final = (
    "Tensor input, Tensor boxes, SymInt pooled_height, SymInt pooled_width, float spatial_scale, "
    "SymInt sampling_ratio, bool aligned"
)


def _pad(rule: str, axes: int) -> Operation:
    name = f"{rule}_pad{axes}d"
    parameters = "Tensor input, SymInt[] padding"
    return Operation(name, f"{name}_backward", parameters, getattr(aten, name), function="pad")


ROWS: Final = (
    *(_pad(rule, axes) for rule in ("replication", "reflection") for axes in (1, 2, 3)),
    Operation(
        "upsample_nearest2d",
        "upsample_nearest2d_backward",
        "Tensor input, SymInt[] output_size, float scales_h, float scales_w",
        lambda input, size, *scales: aten.upsample_nearest2d(input, size, *(each or None for each in scales)),
        more=lambda arguments, _: {"input_size": arguments["input"].shape},
        saved=lambda _: (),
        function="interpolate",
        # Not of an empty batch, which PyTorch's fake kernel refuses.
        cast_by=lambda input, *_: aten.upsample_nearest2d(input.new_empty(1, 1, 1, 1), (1, 1)),
    ),
    Operation(
        "roi_align",
        "roi_align_v2_backward",
        _ROI_ALIGN,
        roi_align,
        roi_align_shape,
        more=lambda arguments, _: {"input_shape": arguments["input"].shape},
        saved=lambda _: ("boxes",),
    ),
    *(
        Operation(
            f"grid_sampler_{axes}d",
            f"grid_sampler{axes}d_backward",
            "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners",
            getattr(aten, f"grid_sampler_{axes}d"),
            saved=lambda _: ("grid", "input"),
            is_linear=False,
            function="grid_sample",
            cast_by=without_batch(aten.grid_sampler, axes + 2),
        )
        for axes in (2, 3)
    ),
    Operation(
        "embedding",
        "embedding_dense_backward",
        "Tensor input, Tensor indices, int padding_idx, bool scale_grad_by_freq",
        aten.embedding,
        more=lambda arguments, _: {"num_weights": arguments["input"].shape[0]},
        saved=lambda _: ("indices",),
        is_linear=False,
        cast_by=lambda input, indices, *_: aten.embedding(input.new_empty(1, 1), indices.new_empty(0)),
        fold=call_each,
    ),
)
