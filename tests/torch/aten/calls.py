"""Calls of ATen's operators: each row of the table that graphs of training steps need has one at least."""

from collections.abc import Iterator
from itertools import product
from typing import Any, Final

import torch
from torch import Tensor

from tests.judge.torch.running import drawn
from tests.torch.aten.element_calls import PARTS, Add, New

aten: Final = torch.ops.aten
Call = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""An operator and its arguments."""
CLASSES: Final = torch.tensor([1, 7, 0])


def calls(dtype: torch.dtype = torch.float32) -> list[Call]:
    """Returns the calls with floats of this dtype."""
    found: list[Call] = []

    def add(name: str, *args: Any, **kwargs: Any) -> None:
        packet, _, overload = name.partition(".")
        found.append((getattr(getattr(aten, packet), overload or "default"), args, kwargs))

    def new(*shape: int) -> Tensor:
        return drawn(*shape, dtype=dtype)

    for part in (*PARTS, _losses, _norms, _convolutions, _pools, _planes, _positions):
        part(add, new)
    return found


def _losses(add: Add, new: New) -> None:
    x, y, share, wanted = new(3, 8), new(3, 8), new(3, 8).sigmoid(), new(3, 8).sigmoid()
    logs, pixels = x.log_softmax(1), new(2, 8, 2, 3).log_softmax(1)
    images = torch.tensor([[[1, 7, 0], [3, 0, 5]]] * 2)
    for reduction in range(3):
        grad = new(3, 8) if reduction == 0 else new(1)[0]
        add("mse_loss_backward", grad, x, y, reduction)
        for beta in (1.0, 0.5, 0.0):
            add("smooth_l1_loss_backward", grad, x, y, reduction, beta)
        for delta in (1.0, 0.3):
            add("huber_loss_backward", grad, x, y, reduction, delta)
        for weight in (None, new(8).abs()):
            add("binary_cross_entropy", share, wanted, weight, reduction)
            add("binary_cross_entropy_backward", grad, share, wanted, weight, reduction)
            for ignored in (-100, 0):
                _, total = aten.nll_loss_forward(logs, CLASSES, weight, reduction, ignored)
                grad_rows = new(3) if reduction == 0 else new(1)[0]
                given = weight, reduction, ignored
                add("nll_loss_backward", grad_rows, logs, CLASSES, *given, total)
                _, total = aten.nll_loss2d_forward(pixels, images, *given)
                grad_images = new(2, 2, 3) if reduction == 0 else new(1)[0]
                add("nll_loss2d_backward", grad_images, pixels, images, *given, total)
    _, total = aten.nll_loss_forward(logs[0], CLASSES[0], None, 1, -100)
    add("nll_loss_backward", new(1)[0], logs[0], CLASSES[0], None, 1, -100, total)
    add("binary_cross_entropy", torch.tensor([0.0, 1.0, 1.0]).to(x), torch.tensor([0.0, 1.0, 0.0]).to(x))


MASKS: Final = tuple(each for each in product((True, False), repeat=3))


def _norms(add: Add, new: New) -> None:
    x = new(4, 3, 8)
    for weight, bias in ((new(8), new(8)), (drawn(8), drawn(8)), (None, None)):
        _, mean, rstd = aten.native_layer_norm(x, [8], weight, bias, 1e-5)
        for mask in MASKS if weight is not None else [(True, False, False)]:
            add("native_layer_norm_backward", new(4, 3, 8), x, [8], mean, rstd, weight, bias, mask)
    _, mean, rstd = aten.native_layer_norm(x, [3, 8], None, None, 1e-5)
    add("native_layer_norm_backward", new(4, 3, 8), x, [3, 8], mean, rstd, None, None, (True, False, False))
    planes, weight = new(2, 4, 5, 6), new(4)
    for gamma in (weight, None):
        _, mean, rstd = aten.native_group_norm(planes, gamma, gamma, 2, 4, 30, 2, 1e-5)
        for mask in MASKS if gamma is not None else [(True, False, False)]:
            given = mean, rstd, gamma, 2, 4, 30, 2, mask
            add("native_group_norm_backward", new(2, 4, 5, 6), planes, *given)
    running = drawn(4), drawn(4).abs() + 0.5
    for gamma in (drawn(4), None):
        for training in (True, False):
            saved = aten.native_batch_norm(planes, gamma, gamma, *running, training, 0.1, 1e-5)[1:]
            for mask in MASKS if gamma is not None else [(True, False, False)]:
                given = gamma, *running, *saved, training, 1e-5, mask
                add("native_batch_norm_backward", new(2, 4, 5, 6), planes, *given)
    for causal, scale in ((False, None), (True, 0.3)):
        query, key, value = new(2, 2, 5, 4), new(2, 2, 5, 4), new(2, 2, 5, 4)
        name = "_scaled_dot_product_flash_attention_for_cpu"
        masks = [None] if causal else [None, new(2, 1, 5, 5)]
        for mask in masks:
            options = {"attn_mask": mask, "scale": scale}
            add(name, query, key, value, 0.0, causal, **options)
            made = getattr(aten, name)(query, key, value, 0.0, causal, **options)
            add(f"{name}_backward", new(2, 2, 5, 4), query, key, value, *made, 0.0, causal, **options)


def _convolutions(add: Add, new: New) -> None:
    for axes, transposed in product((1, 2, 3), (False, True)):
        shape, kernel = (2, 4, *(5, 6, 4)[:axes]), (3, 2, 3)[:axes]
        x, weight = new(*shape), new(4, 3, *kernel) if transposed else new(6, 2, *kernel)
        more = [1] * axes if transposed else [0] * axes
        how = [2] * axes, [1] * axes, [1] * axes, transposed, more, 2
        grad = new(*aten.convolution(x, weight, None, *how).shape)
        for mask in MASKS if axes == 2 else MASKS[:1]:
            add("convolution_backward", grad, x, weight, [6] if mask[2] else [0], *how, mask)
    x, weight = new(2, 4, 6, 6), new(3, 4, 3, 3)
    how = [1, 1], [2, 2], [2, 2], False, [0, 0], 1
    grad = new(*aten.convolution(x, weight, None, *how).shape)
    add("convolution_backward", grad, x, weight, None, *how, (True, True, False))


def _pools(add: Add, new: New) -> None:
    planes = new(2, 4, 7, 6)
    for window in (
        ([2, 2], [], [0, 0], [1, 1], False),
        ([3, 3], [2, 2], [1, 1], [1, 1], True),
        ([3], [1], [0], [1], False),
    ):
        for x in (planes, planes[0]):
            made, indices = aten.max_pool2d_with_indices(x, *window)
            add("max_pool2d_with_indices", x, *window)
            add("max_pool2d_with_indices_backward", new(*made.shape), x, *window, indices)
    for window in (
        ([2, 2], [], [0, 0], False, True, None),
        ([3, 3], [2, 2], [1, 1], True, False, None),
        ([3, 2], [1], [1, 0], False, True, 5),
    ):
        made = aten.avg_pool2d(planes, *window)
        add("avg_pool2d_backward", new(*made.shape), planes, *window)
    for size in ((3, 2), (1, 1), (9, 6)):
        add("_adaptive_avg_pool2d_backward", new(2, 4, *size), planes)
    for size in ((3, 2, 2), (1, 1, 1)):
        add("_adaptive_avg_pool3d_backward", new(2, 4, *size), new(2, 4, 5, 4, 3))


def _planes(add: Add, new: New) -> None:
    for size, scales in (((8, 12), (2.0, 2.0)), ((7, 9), (None, None)), ((4, 6), (None, None))):
        given = new(2, 3, *size), size, (2, 3, 4, 6)
        add("upsample_nearest2d_backward", *given, *scales)
        add("upsample_nearest2d", new(2, 3, 4, 6), size, *scales)
        add("upsample_bilinear2d", new(2, 3, 4, 6), size, False, *scales)
        for corners in (False, True):
            add("upsample_bilinear2d_backward", *given, corners, *scales)
    for size, scales in (((8,), (2.0,)), ((7,), (None,)), ((4,), (None,))):
        for name, corners in (("nearest", ()), ("linear", (False,)), ("linear", (True,))):
            add(f"upsample_{name}1d", new(2, 3, 4), size, *corners, *scales)
            add(f"upsample_{name}1d_backward", new(2, 3, *size), size, (2, 3, 4), *corners, *scales)
    for size, scales in (
        ((8, 4, 6), (2.0,) * 3),
        ((3, 2, 5), (None,) * 3),
        ((4, 3, 3), (None,) * 3),
        ((5, 2, 3), (None,) * 3),
    ):
        for name, corners in (("nearest", ()), ("trilinear", (False,)), ("trilinear", (True,))):
            add(f"upsample_{name}3d", new(2, 3, 4, 2, 3), size, *corners, *scales)
            add(f"upsample_{name}3d_backward", new(2, 3, *size), size, (2, 3, 4, 2, 3), *corners, *scales)
    for mode, padding, corners in product((0, 1), (0, 1, 2), (False, True)):
        for mask in ((True, True), (True, False)) if mode == 0 else ((True, True),):
            how = mode, padding, corners, mask
            points = drawn(2, 5, 3, 2).to(new(1)) * 0.8
            add("grid_sampler_2d_backward", new(2, 4, 5, 3), new(2, 4, 6, 7), points, *how)
            points = drawn(2, 2, 5, 3, 3).to(new(1)) * 0.8
            add("grid_sampler_3d_backward", new(2, 4, 2, 5, 3), new(2, 4, 3, 6, 7), points, *how)
    for rule in ("replication", "reflection"):
        for axes, pads in ((1, [1, 2]), (2, [1, 2, 0, 1]), (3, [1, 0, 2, 1, 1, 1])):
            x = new(2, 4, *(5, 6, 4)[:axes])
            padded = getattr(aten, f"{rule}_pad{axes}d")(x, pads)
            add(f"{rule}_pad{axes}d_backward", new(*padded.shape), x, pads)


def _positions(add: Add, new: New) -> None:
    x = new(3, 8, 5)
    rows = torch.tensor([[0, 2], [2, 2]])
    for given in ((5, -1, False), (5, 2, False), (5, -1, True)):
        add("embedding_dense_backward", new(2, 2, 4), rows, *given)
    add("embedding_dense_backward", new(4), torch.tensor(3), 5, -1, False)
    add("slice_backward", new(3, 3, 5), [3, 8, 5], 1, 1, 7, 2)
    add("slice_backward", new(3, 8, 2), [3, 8, 5], -1, 3, 2**63 - 1, 1)
    add("slice_backward", x, [3, 8, 5], 0, 0, 2**63 - 1, 1)
    add("select_backward", new(3, 5), [3, 8, 5], 1, -2)
    add("select_backward", new(8, 5), [3, 8, 5], 0, 0)
    zeros = torch.zeros_like(x)
    for name in ("index_put", "_unsafe_index_put"):
        add(name, zeros, [rows], new(2, 2, 8, 5), True)
    add("index_put", x, [None, torch.tensor([7, -1, 7])], new(3, 3, 5), True)
    add("index_put", x, [None, None, torch.tensor([1, 0])], new(1)[0], True)
    for name in ("index", "_unsafe_index"):
        add(f"{name}.Tensor", x, [None, rows])


def with_views(found: list[Call]) -> Iterator[Call]:
    """Returns the calls of gradients with one that is spread over its shape, as that of a sum is."""
    for operator, (grad, *rest), kwargs in found:
        if "_backward" in operator.name() and isinstance(grad, Tensor) and grad.dim():
            yield operator, (grad.flatten()[:1].reshape([1] * grad.dim()).expand(grad.shape), *rest), kwargs
