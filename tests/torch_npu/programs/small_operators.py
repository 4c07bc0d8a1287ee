"""Gradients of activations, losses and dropout, which a device computes by functions of PyTorch or of torch_npu."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from gradient_case import Case, uniform  # isort: skip

aten, npu = torch.ops.aten, torch.ops.npu


def activations(plane: torch.Tensor) -> Iterator[Case]:
    """Of every channel; GLU has twice as many."""
    weight, halves = uniform(plane.shape[1]), plane.repeat(1, 2, 1, 1)
    buffer = torch.empty(0)
    for name, forward, backward in (
        ("elu", lambda x: functional.elu(x, 0.7), lambda g, x: aten.elu_backward(g, 0.7, 1, 1, False, x)),
        ("hardshrink", functional.hardshrink, lambda g, x: aten.hardshrink_backward(g, x, 0.5)),
        ("hardsigmoid", functional.hardsigmoid, aten.hardsigmoid_backward),
        ("hardtanh", lambda x: functional.hardtanh(x, -0.5, 0.4), lambda g, x: aten.hardtanh_backward(g, x, -0.5, 0.4)),
        ("log_sigmoid", functional.logsigmoid, lambda g, x: aten.log_sigmoid_backward(g, x, buffer.npu())),
        ("mish", functional.mish, aten.mish_backward),
        ("softplus", lambda x: functional.softplus(x, 2, 1), lambda g, x: aten.softplus_backward(g, x, 2, 1)),
        ("softshrink", functional.softshrink, lambda g, x: aten.softshrink_backward(g, x, 0.5)),
        (
            "prelu",
            lambda x: functional.prelu(x, weight),
            lambda g, x: aten._prelu_kernel_backward(g, x, weight.view(1, -1, 1, 1).npu())[0],  # noqa: SLF001
        ),
    ):
        yield Case(f"{name}_backward", forward, plane, backward)
    yield Case("glu_backward", lambda x: functional.glu(x, 1), halves, lambda g, x: aten.glu_backward(g, x, 1))


def losses(plane: torch.Tensor) -> Iterator[Case]:
    input, target = plane * 0.4 + 0.5, torch.rand(plane.shape)
    weight = torch.rand(plane.shape)
    for name, forward, backward in (
        ("mse_loss", functional.mse_loss, lambda g, x, t: aten.mse_loss_backward(g, x, t, 1)),
        ("l1_loss", functional.l1_loss, lambda g, x, t: npu.l1_loss_backward(g, x, t, 1)),
        ("smooth_l1_loss", functional.smooth_l1_loss, lambda g, x, t: aten.smooth_l1_loss_backward(g, x, t, 1, 1.0)),
        (
            "binary_cross_entropy",
            functional.binary_cross_entropy,
            lambda g, x, t: aten.binary_cross_entropy_backward(g, x, t, None, 1),
        ),
        (
            "binary_cross_entropy_with_logits",
            lambda x, t: functional.binary_cross_entropy_with_logits(x, t, weight, reduction="sum"),
            lambda g, x, t: npu.npu_binary_cross_entropy_with_logits_backward(g, x, t, weight.npu(), None, 2),
        ),
        (
            "kl_div",
            lambda x, t: functional.kl_div(x, t, reduction="sum"),
            lambda g, x, t: npu.kl_div_backward(g, x, t, 2),
        ),
    ):

        def applied(x: torch.Tensor, forward: Callable[..., torch.Tensor] = forward) -> torch.Tensor:
            return forward(x, target)

        def differentiated(
            g: torch.Tensor, x: torch.Tensor, backward: Callable[..., torch.Tensor] = backward
        ) -> torch.Tensor:
            return backward(g, x, target.npu())

        yield Case(f"{name}_backward", applied, input, differentiated)


def class_losses(planes: torch.Tensor, target: torch.Tensor) -> Iterator[Case]:
    weight = torch.rand(planes.shape[1])
    target[0, 0] = -100
    rows, row = planes[:, :, 1, 1].contiguous(), target[:, 1, 1].contiguous()
    for name, kind, input, classes in (
        ("nll_loss2d_backward", aten.nll_loss2d_backward, planes, target),
        ("nll_loss_backward", aten.nll_loss_backward, rows, row),
    ):
        total = weight[classes[classes >= 0]].sum()

        def forward(x: torch.Tensor, classes: torch.Tensor = classes) -> torch.Tensor:
            return functional.nll_loss(x, classes, weight)

        def backward(
            g: torch.Tensor,
            x: torch.Tensor,
            kind: Any = kind,
            classes: torch.Tensor = classes,
            total: torch.Tensor = total,
        ) -> torch.Tensor:
            return kind(g, x, classes.npu(), weight.npu(), 1, -100, total.npu())

        yield Case(name, forward, input, backward)


def dropout(plane: torch.Tensor) -> Case:
    """By the mask of a device: a bit for each element, the least significant one first."""
    kept = torch.rand(plane.shape) < 0.75
    bits = torch.zeros(-(-plane.numel() // 128) * 128, dtype=torch.int32)
    bits[: plane.numel()] = kept.reshape(-1)
    mask = (bits.view(-1, 8) << torch.arange(8)).sum(1).to(torch.uint8)
    return Case(
        "dropout_do_mask",
        lambda x: x * kept / 0.75,
        plane,
        lambda g, _: npu.npu_dropout_backward(g, mask.npu(), 0.25),
    )
