"""The functions that a block reroutes."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from aclgrad.torch import _elementwise, _pooling, _sampling, _several, _softmax


def rerouted() -> dict[Any, Callable[..., Any]]:
    """Returns the functions by those of PyTorch that they stand for; RoI align only if torchvision is loaded."""
    found: dict[Any, Callable[..., Any]] = {
        functional.adaptive_avg_pool2d: _pooling.adaptive_avg_pool2d,
        functional.adaptive_avg_pool3d: _pooling.adaptive_avg_pool3d,
        functional.avg_pool2d: _pooling.avg_pool2d,
        functional.max_pool2d: _pooling.max_pool2d,
        functional.max_pool2d_with_indices: _pooling.max_pool2d_with_indices,
        torch.max_pool2d: _pooling.max_pool2d,
        functional.max_unpool2d: _pooling.max_unpool2d,
        functional.max_unpool3d: _pooling.max_unpool3d,
        functional.embedding: _sampling.embedding,
        functional.pad: _sampling.pad,
        functional.interpolate: _sampling.interpolate,
        functional.batch_norm: _several.batch_norm,
        functional.grid_sample: _several.grid_sample,
        functional.group_norm: _several.group_norm,
        functional.layer_norm: _several.layer_norm,
        **_elementwise.REROUTED,
        functional.rms_norm: _several.rms_norm,
        torch.rms_norm: _several.rms_norm,
        **_softmax.REROUTED,
    }
    if hasattr(torch.ops.torchvision, "roi_align"):
        found[torch.ops.torchvision.roi_align] = _sampling.torchvision_roi_align
    return found
