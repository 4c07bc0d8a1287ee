"""Calls of losses, dropout and rarer activations, for the tests of the bridges' table."""

from typing import Any

import torch
from torch import Tensor

from .table import Call, call, random

REDUCTIONS = ("none", "mean", "sum")


def _of_cells(function: str, target: Tensor, shape: tuple[int, ...] = (2, 3, 5), **options: Any) -> Call:
    values = random(*shape)
    if function == "binary_cross_entropy":
        values = values.sigmoid()
    return Call(function, f"{function}_backward", (values,), (), {"target": target, **options})


def _of_classes(function: str, shape: tuple[int, ...], **options: Any) -> Call:
    operator = f"{function}_backward"
    if function == "nll_loss" and len(shape) > 2:
        operator = "nll_loss2d_backward"
    return Call(function, operator, (random(*shape),), (), {"target": classes(shape), **options})


def classes(shape: tuple[int, ...]) -> Tensor:
    """Returns a class for each row or pixel of (N, C, ...), or of (C)."""
    sizes = (*shape[:1], *shape[2:])[len(shape) == 1 :]
    return torch.randint(shape[min(1, len(shape) - 1)], sizes, generator=torch.Generator().manual_seed(3))


def ctc_loss(lengths: tuple[Any, Any], target: Tensor, shape: tuple[int, ...], **options: Any) -> Call:
    given = {"targets": target, "input_lengths": lengths[0], "target_lengths": lengths[1]}
    values = random(*shape).log_softmax(-1)
    return Call("ctc_loss", "ctc_loss_backward", (values,), (), {**given, **options}, ("log_probs",))


def prelu(shape: tuple[int, ...], channels: int) -> Call:
    values, outputs = (random(*shape), random(channels, seed=2)), ("grad_input", "grad_weight")
    return Call("prelu", "prelu_backward", values, (), {}, ("input", "weight"), outputs)


def _elu(function: str, shape: tuple[int, ...], **options: Any) -> Call:
    return call(function, "elu_backward", shape, **options)


_TARGET = random(2, 3, 5, seed=2)
_SHARES = _TARGET.sigmoid()
_WORDS = torch.tensor([[1, 2, 2], [3, 1, -7], [2, 0, 9]])
"""Of 3, 2 and 1 classes; beyond their lengths may be anything."""
_LENGTHS = ([7, 6, 5], [3, 2, 1])
ACTIVATIONS = (
    _elu("elu", (2, 3, 5)),
    _elu("elu", (4,), alpha=0.3),
    _elu("celu", (2, 3, 5)),
    _elu("celu", (4,), alpha=0.3),
    _elu("selu", (2, 3, 5)),
    call("softplus", "softplus_backward", (2, 3, 5)),
    call("softplus", "softplus_backward", (4, 9), 2.0, 1.5),
    call("hardtanh", "hardtanh_backward", (2, 3, 5)),
    call("hardtanh", "hardtanh_backward", (3, 7), -0.3, 0.6),
    call("relu6", "hardtanh_backward", (3, 7)),
    call("hardsigmoid", "hardsigmoid_backward", (3, 7)),
    call("mish", "mish_backward", (2, 3, 5)),
    call("mish", "mish_backward", ()),
    call("logsigmoid", "log_sigmoid_backward", (2, 3, 5)),
    call("hardshrink", "hardshrink_backward", (2, 3, 5)),
    call("hardshrink", "hardshrink_backward", (3, 7), 0.2),
    call("softshrink", "softshrink_backward", (2, 3, 5)),
    call("softshrink", "softshrink_backward", (3, 7), 0.2),
    call("glu", "glu_backward", (2, 3, 6)),
    call("glu", "glu_backward", (4, 3), 0),
    call("glu", "glu_backward", (2, 4, 3, 5), dim=-3),
    prelu((2, 3, 5), 3),
    prelu((2, 3, 4, 5), 1),
    prelu((4,), 1),
    prelu((0, 3), 3),
)
LOSSES = (
    *(_of_cells("mse_loss", _TARGET, reduction=each) for each in REDUCTIONS),
    _of_cells("mse_loss", _TARGET, weight=_SHARES),
    _of_cells("mse_loss", _TARGET[0, 0, 0], ()),
    _of_cells("mse_loss", _TARGET[:0], (0, 3, 5), reduction="sum"),
    *(_of_cells("l1_loss", _TARGET, reduction=each) for each in REDUCTIONS),
    _of_cells("l1_loss", _TARGET, weight=_SHARES, reduction="sum"),
    *(_of_cells("smooth_l1_loss", _TARGET, reduction=each, beta=0.7) for each in REDUCTIONS),
    *(_of_cells("binary_cross_entropy", _SHARES, reduction=each) for each in REDUCTIONS),
    _of_cells("binary_cross_entropy", _SHARES, weight=_SHARES[0]),
    *(_of_cells("binary_cross_entropy_with_logits", _SHARES, reduction=each) for each in REDUCTIONS),
    _of_cells("binary_cross_entropy_with_logits", _SHARES, weight=_SHARES[0], pos_weight=_SHARES[1, 0] + 1),
    *(_of_cells("kl_div", _SHARES, reduction=each) for each in (*REDUCTIONS[::2], "batchmean")),
    _of_cells("kl_div", _TARGET, reduction="sum", log_target=True),
    *(_of_classes("nll_loss", (4, 5), reduction=each) for each in REDUCTIONS),
    _of_classes("nll_loss", (4, 5), weight=random(5, seed=4).abs(), ignore_index=2),
    _of_classes("nll_loss", (5,)),
    *(_of_classes("nll_loss", (2, 3, 4, 5), reduction=each) for each in REDUCTIONS),
    _of_classes("nll_loss", (2, 3, 4), reduction="none"),
    _of_classes("nll_loss", (2, 3, 2, 2, 2), weight=random(3, seed=4).abs()),
    *(_of_classes("cross_entropy", (4, 5), reduction=each) for each in REDUCTIONS),
    *(_of_classes("cross_entropy", (4, 5), reduction=each, label_smoothing=0.2) for each in REDUCTIONS),
    _of_classes("cross_entropy", (4, 5), weight=random(5, seed=4).abs(), ignore_index=2, label_smoothing=0.2),
    _of_classes("cross_entropy", (5,), label_smoothing=0.2),
    _of_classes("cross_entropy", (2, 3, 4, 5), ignore_index=1),
    _of_classes("cross_entropy", (2, 3, 4), reduction="none", label_smoothing=0.2),
    _of_classes("cross_entropy", (2, 3, 2, 2, 2), weight=random(3, seed=4).abs(), label_smoothing=1.0),
    ctc_loss(_LENGTHS, _WORDS, (7, 3, 4), reduction="sum"),
    ctc_loss(tuple(map(torch.tensor, _LENGTHS)), torch.tensor([1, 2, 2, 3, 1, 2]), (7, 3, 4)),
    ctc_loss(([2, 6, 5], [3, 2, 1]), _WORDS, (7, 3, 4), reduction="sum", zero_infinity=True),
    ctc_loss(([7], [3]), _WORDS[0], (7, 4), reduction="none"),
)
IMAGES = tuple(
    call("interpolate", "upsample_bilinear2d_backward_v2", (2, 3, 5, 4), mode="bilinear", **options)
    for options in (
        {"size": (7, 3)},
        {"size": 9, "align_corners": True},
        {"scale_factor": 2},
        {"scale_factor": (3.0, 1.5), "align_corners": False},
        {"scale_factor": 1.3, "align_corners": True},
        {"scale_factor": 1.3, "recompute_scale_factor": True},
    )
)
CALLS = (*ACTIVATIONS, *LOSSES, *IMAGES)
