"""The functions of torch_npu that PyTorch can express, with their arguments."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad.judge.dumps.choices import unpacked
from aclgrad.judge.dumps.fused_attention import npu_fusion_attention
from aclgrad.judge.dumps.rotary import npu_rotary_mul


def _npu_swiglu(input: Tensor, dim: int = -1) -> Tensor:
    a, b = input.chunk(2, dim)
    return functional.silu(a) * b


def _npu_rms_norm(input: Tensor, gamma: Tensor, epsilon: float = 1e-6) -> tuple[Tensor, Tensor]:
    """Returns the result, and 1 / sqrt(mean square + epsilon) of each row."""
    axes = tuple(range(input.dim() - gamma.dim(), input.dim()))
    rstd = (
        input.detach().to(torch.promote_types(input.dtype, torch.float32)).square().mean(axes, True) + epsilon
    ).rsqrt()
    return functional.rms_norm(input, gamma.shape, gamma, epsilon), rstd


def _npu_dropout(self: Tensor, p: float) -> tuple[Tensor, Tensor]:
    output, mask = torch.native_dropout(self, p, True)
    return output, mask


def _npu_dropout_backward(grad_output: Tensor, mask: Tensor, p: float) -> Tensor:
    """Returns the elements whose bit is 1, scaled; cards round the kept share to the dtype."""
    if p in (0, 1):
        return grad_output * (1 - p)
    return grad_output * unpacked(mask, grad_output) / float(torch.tensor(1 - p, dtype=grad_output.dtype))


def _npu_dropout_do_mask(self: Tensor, mask: Tensor, p: float) -> tuple[Tensor, Tensor]:
    return _npu_dropout_backward(self, mask, p), mask


def _npu_cross_entropy_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    lse_square_scale_for_zloss: float = 0.0,
    return_zloss: bool = False,
) -> tuple[Tensor, Tensor]:
    """Returns the loss and the log probabilities; other results belong to a loss that cards lack."""
    weight = None if weight is None else weight.to(input.dtype)
    loss = functional.cross_entropy(
        input, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    return loss, functional.log_softmax(input, -1)


def _logits_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    positive = target if pos_weight is None else pos_weight * target
    slope = ((positive + 1 - target) * torch.sigmoid(self) - positive) * grad_output
    gradient = slope if weight is None else slope * weight
    return gradient / self.numel() if reduction == 1 else gradient


def _kl_div_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    gradient = -grad_output * (target.exp() if log_target else target)
    return (gradient / self.numel() if reduction == 1 else gradient).expand(self.shape)


def _l1_loss_backward(grad_output: Tensor, self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    gradient = grad_output * (self - target).sgn()
    return gradient / self.numel() if reduction == 1 else gradient


def _on_axes(weight: Tensor, *values: int | list[int]) -> list[list[int]]:
    return [[each] * (weight.dim() - 2) if isinstance(each, int) else each for each in values]


def _npu_convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
    *,
    convolve: Callable[..., Tensor] = torch.convolution,
) -> Tensor:
    lists = _on_axes(weight, stride, padding, dilation, 0)
    return convolve(input, weight, bias, *lists[:3], False, lists[3], groups)


def _npu_convolution_transpose(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    padding: Any,
    output_padding: Any,
    stride: Any,
    dilation: Any,
    groups: int,
    *,
    convolve: Callable[..., Tensor] = torch.convolution,
) -> Tensor:
    lists = _on_axes(weight, stride, padding, dilation, output_padding)
    return convolve(input, weight, bias, *lists[:3], True, lists[3], groups)


CONVOLUTIONS: Final[Mapping[str, Callable[..., Tensor]]] = {
    **dict.fromkeys(("NPU.npu_conv2d", "NPU.npu_conv3d", "NPU.npu_convolution"), _npu_convolution),
    **dict.fromkeys(("NPU.npu_conv_transpose2d", "NPU.npu_convolution_transpose"), _npu_convolution_transpose),
}
"""Functions of torch_npu; `convolve` may be another function than PyTorch's."""
FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **CONVOLUTIONS,
    "NPU._npu_dropout": _npu_dropout,
    "NPU.kl_div_backward": _kl_div_backward,
    "NPU.l1_loss_backward": _l1_loss_backward,
    "NPU.npu_binary_cross_entropy_with_logits_backward": _logits_backward,
    "NPU.npu_cross_entropy_loss": _npu_cross_entropy_loss,
    "NPU.npu_dropout_backward": _npu_dropout_backward,
    "NPU.npu_dropout_do_mask": _npu_dropout_do_mask,
    "NPU.npu_fusion_attention": npu_fusion_attention,
    "NPU.npu_linear": functional.linear,
    "NPU.npu_mish": functional.mish,
    "NPU.npu_rms_norm": _npu_rms_norm,
    "NPU.npu_rotary_mul": npu_rotary_mul,
    "NPU.npu_silu": functional.silu,
    "NPU.npu_swiglu": _npu_swiglu,
}
"""Functions by msprobe's names."""
