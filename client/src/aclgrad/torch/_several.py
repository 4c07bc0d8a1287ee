"""The functions with gradients of several arguments: one call computes those that are needed."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._normalisation import update
from aclgrad.torch._run import in_order, run

_MODES: Final = ("bilinear", "nearest")
_PADDINGS: Final = ("zeros", "border", "reflection")


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    client: Client,
) -> Tensor:
    """Normalises each channel of (N, C, ...), as `torch.nn.functional.batch_norm` does.

    With `training` by the statistics of the batch, which also update the running ones in place, and otherwise by the
    running ones. The gradients of `input`, `weight` and `bias` are those of the client's server, and have no second
    derivatives. Raises InvalidFieldError if its product cannot compute it.
    """
    parameters = running_mean, running_var, weight, bias
    if input.dim() < 2 or any(each is not None and each.shape != input.shape[1:2] for each in parameters):
        raise LocalError("PyTorch refuses statistics and parameters that do not have the size of the channels")
    if training:
        check: Callable[..., None] = vars(functional)["_verify_batch_size"]
        check(input.size())
    elif running_mean is None or running_var is None:
        raise LocalError("PyTorch refuses to normalise without training if there are no running statistics")
    normalised, _, _, *statistics = run("batch_norm", client, input, *parameters, training, momentum, eps)
    if training:
        update(running_mean, statistics[0])
        update(running_var, statistics[1])
    result: Tensor = normalised
    return result


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
    *,
    client: Client,
) -> Tensor:
    """Samples the images (N, C, H, W) at the points of `grid` (N, oH, oW, 2), or volumes, as PyTorch's function does.

    The gradients of `input` and `grid` are those of the client's server, and have no second derivatives. Raises
    InvalidFieldError for the mode "bicubic" and if its product cannot compute it.
    """
    if mode not in _MODES or padding_mode not in _PADDINGS:
        raise LocalError(f"there is no operator for the mode {mode} with the padding mode {padding_mode}")

    rule = _MODES.index(mode), _PADDINGS.index(padding_mode), bool(align_corners)
    sampled: Tensor = run(f"grid_sampler_{3 if input.dim() == 5 else 2}d", client, input, grid, *rule)
    return sampled


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    client: Client,
) -> Tensor:
    """Normalises each of the groups of channels of (N, C, ...), as `torch.nn.functional.group_norm` does.

    The gradients of `input`, `weight` and `bias` are those of the client's server, and have no second derivatives.
    Raises InvalidFieldError if its product cannot compute it.
    """
    if input.dim() < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise LocalError("PyTorch refuses groups that do not divide the channels")
    if any(each is not None and each.shape != input.shape[1:2] for each in (weight, bias)):
        raise LocalError("PyTorch refuses parameters that do not have the size of the channels")
    normalised: Tensor = run("group_norm", client, input, num_groups, weight, bias, eps)[0]
    return normalised


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *,
    client: Client,
) -> Tensor:
    """Normalises the last axes, of the sizes `normalized_shape`, as `torch.nn.functional.layer_norm` does.

    The gradients of `input`, `weight` and `bias` are those of the client's server, and have no second derivatives.
    Raises InvalidFieldError if its product cannot compute it.
    """
    normalised: Tensor = run("layer_norm", client, input, list(normalized_shape), weight, bias, eps)[0]
    return normalised


def rms_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    eps: float | None = None,
    *,
    client: Client,
) -> Tensor:
    """Divides the last axes, of the sizes `normalized_shape`, by their root mean square, as PyTorch's function does.

    The gradients of `input` and `weight` are those of the client's server, and have no second derivatives. Raises
    InvalidFieldError if its product cannot compute it.
    """
    gamma = input.new_ones(tuple(normalized_shape)) if weight is None else weight
    normalised: Tensor = run("rms_norm", client, input, list(normalized_shape), gamma, eps)[0]
    return normalised


def _grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool, *, client: Client
) -> Tensor:
    mode, padding = (*_MODES, "bicubic")[interpolation_mode], _PADDINGS[padding_mode]
    return grid_sample(input, grid, mode, padding, align_corners, client=client)


_BATCH_NORM: Final = "input weight bias running_mean running_var training momentum eps cudnn_enabled"
REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.batch_norm: batch_norm,
    functional.grid_sample: grid_sample,
    functional.group_norm: group_norm,
    functional.layer_norm: layer_norm,
    torch.batch_norm: in_order(_BATCH_NORM, batch_norm),
    torch.grid_sampler: _grid_sampler,
    torch.group_norm: in_order("input num_groups weight bias eps cudnn_enabled", group_norm),
    torch.layer_norm: in_order("input normalized_shape weight bias eps cudnn_enable", layer_norm),
    **dict.fromkeys((functional.rms_norm, torch.rms_norm), rms_norm),
}
"""Our functions by the functions of PyTorch that they replace."""
