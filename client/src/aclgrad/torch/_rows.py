"""PyTorch's side of the bridges' rows."""

from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.bridges.rows import ROWS
from aclgrad.torch import _activation_rows, _loss_rows
from aclgrad.torch import _convolution_backward as convolutions
from aclgrad.torch import _normalisation as norms
from aclgrad.torch._roi_align import roi_align, roi_align_shape
from aclgrad.torch._row import Derivative, Operation, without_batch

aten: Final = torch.ops.aten


def _adaptive_avg_pool(axes: int) -> Operation:
    name = f"adaptive_avg_pool{axes}d"
    return Operation(
        name,
        "Tensor input, SymInt[] output_size",
        getattr(aten, name),
        # For one window, PyTorch takes a mean.
        saved=lambda arguments: () if all(each == 1 for each in arguments["output_size"]) else ("input",),
        sizes=lambda pooled: {"output_size": list(pooled[-axes:])},
    )


def _at_indices(grad_input: Tensor, indices: Tensor, client: int) -> Tensor:
    """Returns the maxima, in the shape of `indices`."""
    # Not by flatten, which autograd's own vmap cannot do.
    planes, cells = (each.reshape(*each.shape[:-2], each.shape[-2:].numel()) for each in (grad_input, indices))
    return planes.gather(-1, cells).reshape(indices.shape)


def _convolution(name: str) -> Operation:
    axes, transposed = int(name[-2]), "transpose" in name

    def forward(input: Tensor, weight: Tensor, bias: Tensor | None, *lists: Any) -> Tensor:
        *window, groups = lists
        more = window.pop() if transposed else [0] * axes
        result: Tensor = aten.convolution(input, weight, bias, *window, transposed, more, groups)
        return result

    return Operation(
        name,
        "Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
        f"{'SymInt[] output_padding, ' if transposed else ''}SymInt groups",
        forward,
        saved=lambda _: ("input", "weight"),
        derivative=Derivative(convolutions.gradients_again, convolutions.flops_again),
        flops=convolutions.flops,
        # The functions themselves cast, because only some are in PyTorch's list.
        cast_by=lambda input, *_: input,
    )


_WINDOW: Final = "Tensor input, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding"
_UNPOOL: Final = "Tensor input, Tensor indices, SymInt[] output_size"
_ROI_ALIGN: Final = (
    "Tensor input, Tensor boxes, SymInt pooled_height, SymInt pooled_width, float spatial_scale, "
    "SymInt sampling_ratio, bool aligned"
)
_BATCH_NORM: Final = (
    "Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight, Tensor? bias, bool training, "
    "float momentum, float eps"
)
_OPERATIONS: Final = (
    *(_adaptive_avg_pool(axes) for axes in (2, 3)),
    Operation(
        "avg_pool2d",
        f"{_WINDOW}, bool ceil_mode, bool count_include_pad, SymInt divisor_override",
        lambda *arguments: aten.avg_pool2d(*arguments[:-1], arguments[-1] or None),
    ),
    *(_convolution(name) for name, row in ROWS.items() if row.operator == "convolution_backward"),
    Operation(
        "max_pool2d",
        f"{_WINDOW}, SymInt[] dilation, bool ceil_mode",
        aten.max_pool2d_with_indices,
        saved=lambda _: ("input", "indices"),
        again=_at_indices,
        returns="(Tensor, Tensor)",
    ),
    Operation("max_unpool2d", _UNPOOL, aten.max_unpool2d, saved=lambda _: ("indices",)),
    Operation(
        "max_unpool3d",
        f"{_UNPOOL}, SymInt[] stride, SymInt[] padding",
        aten.max_unpool3d,
        saved=lambda _: ("indices",),
    ),
    *(
        Operation(name, "Tensor input, SymInt[] padding", getattr(aten, name))
        for name, row in ROWS.items()
        if row.function == "pad"
    ),
    Operation(
        "upsample_nearest2d",
        "Tensor input, SymInt[] output_size, float scales_h, float scales_w",
        lambda input, size, *scales: aten.upsample_nearest2d(input, size, *(each or None for each in scales)),
        saved=lambda _: (),
        # Not of an empty batch, which PyTorch's fake kernel refuses.
        cast_by=lambda input, *_: aten.upsample_nearest2d(input.new_empty(1, 1, 1, 1), (1, 1)),
    ),
    Operation(
        "upsample_bilinear2d",
        "Tensor input, SymInt[] output_size, bool align_corners, float scales_h, float scales_w",
        lambda input, size, is_aligned, *scales: aten.upsample_bilinear2d(
            input, size, is_aligned, *(each or None for each in scales)
        ),
        saved=lambda _: (),
        cast_by=lambda input, *_: aten.upsample_bilinear2d(input.new_empty(1, 1, 1, 1), (1, 1), False),
    ),
    Operation("roi_align", _ROI_ALIGN, roi_align, roi_align_shape, saved=lambda _: ("boxes",)),
    *(
        Operation(
            f"grid_sampler_{axes}d",
            "Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners",
            getattr(aten, f"grid_sampler_{axes}d"),
            saved=lambda _: ("grid", "input"),
            cast_by=without_batch(aten.grid_sampler, axes + 2),
        )
        for axes in (2, 3)
    ),
    Operation(
        "embedding",
        "Tensor input, Tensor indices, int padding_idx, bool scale_grad_by_freq",
        aten.embedding,
        saved=lambda _: ("indices",),
        cast_by=lambda input, indices, *_: aten.embedding(input.new_empty(1, 1), indices.new_empty(0)),
    ),
    Operation(
        "layer_norm",
        "Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps",
        aten.native_layer_norm,
        norms.layer_norm_shapes,
        saved=lambda _: ("bias", "input", "weight", "mean", "rstd"),
        cast_by=lambda input, _, *rest: torch.layer_norm(input.new_empty(0, 1), (1,), *norms.of_one(*rest[:2])),
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "rms_norm",
        "Tensor input, SymInt[] normalized_shape, Tensor gamma, float? eps",
        norms.fused_rms_norm,
        saved=lambda _: ("input", "gamma", "rstd"),
        cast_by=lambda input, *_: torch.rms_norm(input.new_empty(0, 1), (1,)),
        returns="(Tensor, Tensor)",
    ),
    Operation(
        "group_norm",
        "Tensor input, int num_groups, Tensor? gamma, Tensor? bias, float eps",
        norms.group_norm,
        norms.group_norm_shapes,
        saved=lambda _: ("input", "gamma", "mean", "rstd"),
        cast_by=lambda input, _, *rest: torch.group_norm(input.new_empty(0, 1, 1), 1, *norms.of_one(*rest[:2])),
        returns="(Tensor, Tensor, Tensor)",
    ),
    Operation(
        "batch_norm",
        _BATCH_NORM,
        norms.batch_norm,
        norms.batch_norm_shapes,
        saved=lambda _: ("input", "running_mean", "running_var", "weight", "save_mean", "save_invstd"),
        cast_by=lambda input, *rest: torch.batch_norm(
            input.new_empty(2 if input.numel() else 0, 1), *norms.of_one(*rest[2:4]), None, None, True, 0.0, 1.0, False
        ),
        returns="(Tensor, Tensor, Tensor, Tensor, Tensor)",
    ),
    *_activation_rows.ACTIVATIONS,
    *_loss_rows.LOSSES,
)
OPERATIONS: Final = {each.name: each for each in _OPERATIONS}
