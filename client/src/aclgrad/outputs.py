"""What operators with several outputs return: arrays by the names of the outputs."""

# Generated from the operator table by `make generate`; do not edit.
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


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


class GroupNormBackwardOutputs(NamedTuple):
    """The outputs of `group_norm_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of input, with its shape and dtype."""
    grad_gamma: Array | Any
    """The gradient of gamma, shape (C,), with the dtype of mean."""
    grad_beta: Array | Any
    """The gradient of the bias, shape (C,), with the dtype of mean."""


class LayerNormBackwardOutputs(NamedTuple):
    """The outputs of `layer_norm_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of input, with its shape and dtype."""
    grad_weight: Array | Any
    """The gradient of weight: float32, of normalized_shape."""
    grad_bias: Array | Any
    """The gradient of bias: float32, of normalized_shape."""


class PreluBackwardOutputs(NamedTuple):
    """The outputs of `prelu_backward`; one that is not wanted is None."""

    grad_input: Array | Any
    """The gradient of self, with its shape and dtype."""
    grad_weight: Array | Any
    """The gradient of weight, with its shape and dtype."""


class RmsNormGradOutputs(NamedTuple):
    """The outputs of `rms_norm_grad`; one that is not wanted is None."""

    dx: Array | Any
    """The gradient of input, with its shape and dtype."""
    dgamma: Array | Any
    """The gradient of gamma: float32, with its shape."""


OUTPUTS: Final[Mapping[str, type[tuple[Array | Any, ...]]]] = {
    "batch_norm_backward": BatchNormBackwardOutputs,
    "convolution_backward": ConvolutionBackwardOutputs,
    "grid_sampler2d_backward": GridSampler2DBackwardOutputs,
    "grid_sampler3d_backward": GridSampler3DBackwardOutputs,
    "group_norm_backward": GroupNormBackwardOutputs,
    "layer_norm_backward": LayerNormBackwardOutputs,
    "prelu_backward": PreluBackwardOutputs,
    "rms_norm_grad": RmsNormGradOutputs,
}
"""The types by the wire names of the operators."""
