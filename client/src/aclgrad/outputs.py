"""What operators with several outputs return: arrays by the names of the outputs."""

# Generated from the operator table by `make generate`; do not edit.
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class BatchNormOutputs(NamedTuple):
    """The outputs of `batch_norm`; one that is not wanted is None."""

    output: Array | Any
    """The normalised tensor, with the shape and dtype of input."""
    new_running_mean: Array | Any
    """running_mean * (1 - momentum) + mean * momentum; running_mean without training."""
    new_running_var: Array | Any
    """running_var * (1 - momentum) + unbiased variance * momentum; running_var without training."""
    save_mean: Array | Any
    """The mean of each channel of the batch, shape (C,), float32; (0,) without training."""
    save_invstd: Array | Any
    """What batch_norm_backward takes in a later step of a program, and nobody else gets."""


class BatchNormBackwardOutputs(NamedTuple):
    """The outputs of `batch_norm_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of `input`, with its shape and dtype."""
    grad_weight: Array | Any
    """The gradient of `weight`, shape (C,), float32."""
    grad_bias: Array | Any
    """The gradient of the bias, shape (C,), float32."""


class ConvolutionBackwardOutputs(NamedTuple):
    """The outputs of `convolution_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """Shape of `input`."""
    grad_weight: Array | Any
    """Shape of `weight`."""
    grad_bias: Array | Any
    """Shape (channels of `grad_output`,)."""


class FlashAttentionScoreOutputs(NamedTuple):
    """The outputs of `flash_attention_score`; one that is not wanted is None."""

    softmax_max: Array | Any
    """(B, N, Sq, 8), float32: one value eight times."""
    softmax_sum: Array | Any
    """(B, N, Sq, 8), float32: one value eight times."""
    attention_out: Array | Any
    """The result: query's shape and dtype, with the heads of value."""


class FlashAttentionScoreGradOutputs(NamedTuple):
    """The outputs of `flash_attention_score_grad`; one that is not wanted is None."""

    dq: Array | Any
    """The gradient of query, with its shape and dtype."""
    dk: Array | Any
    """The gradient of key_in, with its shape and dtype."""
    dv: Array | Any
    """The gradient of value, with its shape and dtype."""


class FlashAttentionScoreGradV2Outputs(NamedTuple):
    """The outputs of `flash_attention_score_grad_v2`; one that is not wanted is None."""

    dq: Array | Any
    """The gradient of query, with its shape and dtype."""
    dk: Array | Any
    """The gradient of key_in, with its shape and dtype."""
    dv: Array | Any
    """The gradient of value, with its shape and dtype."""


class FlashAttentionScoreV2Outputs(NamedTuple):
    """The outputs of `flash_attention_score_v2`; one that is not wanted is None."""

    softmax_max: Array | Any
    """(B, N, Sq, 8), float32: one value eight times."""
    softmax_sum: Array | Any
    """(B, N, Sq, 8), float32: one value eight times."""
    attention_out: Array | Any
    """The result: query's shape and dtype, with the heads of value."""


class GridSampler2DBackwardOutputs(NamedTuple):
    """The outputs of `grid_sampler2d_backward`; one that is not wanted is None."""

    input_grad: Array | Any
    """The gradient of `input`, of its shape and dtype."""
    grid_grad: Array | Any
    """The gradient of `grid`, of its shape and dtype."""


class GridSampler3DBackwardOutputs(NamedTuple):
    """The outputs of `grid_sampler3d_backward`; one that is not wanted is None."""

    input_grad: Array | Any
    """The gradient of `input`, of its shape and dtype."""
    grid_grad: Array | Any
    """The gradient of `grid`, of its shape and dtype."""


class GroupNormOutputs(NamedTuple):
    """The outputs of `group_norm`; one that is not wanted is None."""

    out: Array | Any
    """The normalised tensor, with the shape and dtype of self."""
    mean_out: Array | Any
    """The mean of each group, shape (N, group), with the dtype of self."""
    rstd_out: Array | Any
    """1 / sqrt(variance + eps) of each group, in the same way."""


class GroupNormBackwardOutputs(NamedTuple):
    """The outputs of `group_norm_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of input, with its shape and dtype."""
    grad_gamma: Array | Any
    """The gradient of gamma, shape (C,), with the dtype of mean."""
    grad_beta: Array | Any
    """The gradient of the bias, shape (C,), with the dtype of mean."""


class LayerNormOutputs(NamedTuple):
    """The outputs of `layer_norm`; one that is not wanted is None."""

    out: Array | Any
    """The normalised tensor, with the shape and dtype of input."""
    mean_out: Array | Any
    """The mean of each row, float32 or rounded; the sizes of input before normalized_shape, then ones."""
    rstd_out: Array | Any
    """1 / sqrt(variance + eps) of each row, in the same way."""


class LayerNormBackwardOutputs(NamedTuple):
    """The outputs of `layer_norm_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of input, with its shape and dtype."""
    grad_weight: Array | Any
    """The gradient of weight: float32, of normalized_shape."""
    grad_bias: Array | Any
    """The gradient of bias: float32, of normalized_shape."""


class MaxPool2dWithIndicesOutputs(NamedTuple):
    """The outputs of `max_pool2d_with_indices`; one that is not wanted is None."""

    out: Array | Any
    """The maxima, shape (N, C, oH, oW) or (C, oH, oW), dtype of `self`."""
    indices: Array | Any
    """The argmax ih * W + iw, int32, shape of `out`: of equal numbers the first, of NaN the last."""


class MaxPool2dWithMaskOutputs(NamedTuple):
    """The outputs of `max_pool2d_with_mask`; one that is not wanted is None."""

    out: Array | Any
    """The maxima, shape (N, C, oH, oW) or (C, oH, oW), dtype of `self`."""
    indices: Array | Any
    """The product's own mask, int8, shape (N, C, kH * kW, (ceil(oH * oW / 16) + 1) * 32)."""


class NLLLossOutputs(NamedTuple):
    """The outputs of `nll_loss`; one that is not wanted is None."""

    out: Array | Any
    """The losses, with the shape of target; their mean or sum has the shape ()."""
    total_weight_out: Array | Any
    """The sum of the weights of all targets, shape (); 0 (NaN of a device) without a reduction."""


class PreluBackwardOutputs(NamedTuple):
    """The outputs of `prelu_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of self, with its shape and dtype."""
    grad_weight: Array | Any
    """The gradient of weight, with its shape and dtype."""


class RmsNormOutputs(NamedTuple):
    """The outputs of `rms_norm`; one that is not wanted is None."""

    y_out: Array | Any
    """The normalised tensor, with the shape and dtype of x."""
    rstd_out: Array | Any
    """1 / sqrt(mean square + epsilon) of each row, float32; the sizes of x before gamma's, then ones."""


class RmsNormGradOutputs(NamedTuple):
    """The outputs of `rms_norm_grad`; one that is not wanted is None."""

    dx: Array | Any
    """The gradient of input, with its shape and dtype."""
    dgamma: Array | Any
    """The gradient of gamma: float32, with its shape."""


class RotaryPositionEmbeddingGradOutputs(NamedTuple):
    """The outputs of `rotary_position_embedding_grad`; one that is not wanted is None."""

    dx: Array | Any
    """The gradient of x, with the shape and dtype of dy."""
    dcos: Array | Any
    """The gradient of cos, with its shape and dtype."""
    dsin: Array | Any
    """The gradient of sin, with its shape and dtype."""


OUTPUTS: Final[Mapping[str, type[tuple[Array | Any, ...]]]] = {
    "batch_norm": BatchNormOutputs,
    "batch_norm_backward": BatchNormBackwardOutputs,
    "convolution_backward": ConvolutionBackwardOutputs,
    "flash_attention_score": FlashAttentionScoreOutputs,
    "flash_attention_score_grad": FlashAttentionScoreGradOutputs,
    "flash_attention_score_grad_v2": FlashAttentionScoreGradV2Outputs,
    "flash_attention_score_v2": FlashAttentionScoreV2Outputs,
    "grid_sampler2d_backward": GridSampler2DBackwardOutputs,
    "grid_sampler3d_backward": GridSampler3DBackwardOutputs,
    "group_norm": GroupNormOutputs,
    "group_norm_backward": GroupNormBackwardOutputs,
    "layer_norm": LayerNormOutputs,
    "layer_norm_backward": LayerNormBackwardOutputs,
    "max_pool2d_with_indices": MaxPool2dWithIndicesOutputs,
    "max_pool2d_with_mask": MaxPool2dWithMaskOutputs,
    "nll_loss": NLLLossOutputs,
    "prelu_backward": PreluBackwardOutputs,
    "rms_norm": RmsNormOutputs,
    "rms_norm_grad": RmsNormGradOutputs,
    "rotary_position_embedding_grad": RotaryPositionEmbeddingGradOutputs,
}
"""The types by the wire names of the operators."""
