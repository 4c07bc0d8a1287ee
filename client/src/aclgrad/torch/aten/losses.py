"""Losses and their gradients."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from aclgrad.operators.families.losses.spec import MEAN as _MEAN
from aclgrad.products import Product
from aclgrad.torch.aten.steps import Row, Steps, Value, cast, reshaped

aten: Final = torch.ops.aten
_WITHOUT_SQUARES: Final = (Product.ATLAS_TRAINING,)
"""Products without the gradient of the squared difference."""


def _loss(operator: str, attribute: str = "") -> Row:
    """Returns the row of a loss, possibly with one more number."""

    def add(steps: Steps, self: Value, target: Value, reduction: int = 1, number: float = 1.0, **beta: float) -> Value:
        more = {attribute: float(beta.get(attribute, number))} if attribute else {}
        return steps(operator, {"self": self, "target": target}, reduction=reduction, **more)

    return add


def _squares_backward(steps: Steps, grad_output: Value, self: Value, target: Value, reduction: int) -> Value:
    inputs = {"grad_output": grad_output, "self": self, "target": target}
    if steps.product not in _WITHOUT_SQUARES:
        return steps("mse_loss_backward", inputs, reduction=reduction)
    difference = steps("sub", {"self": self, "other": target})
    factor = 2.0 / max(self.size, 1) if reduction == _MEAN else 2.0
    return steps("mul", {"self": steps("muls", {"self": difference}, other=factor), "other": grad_output})


def _smooth_backward(
    steps: Steps, grad_output: Value, self: Value, target: Value, reduction: int, beta: float
) -> Value:
    inputs = {"grad_output": grad_output, "self": self, "target": target}
    if beta == 0:
        return steps("l1_loss_backward", inputs, reduction=reduction)
    return steps("smooth_l1_loss_backward", inputs, reduction=reduction, beta=float(beta))


def _huber(steps: Steps, self: Value, target: Value, reduction: int = 1, delta: float = 1.0) -> Value:
    smooth = steps("smooth_l1_loss", {"self": self, "target": target}, reduction=reduction, beta=float(delta))
    return steps("muls", {"self": smooth}, other=delta)


def _huber_backward(
    steps: Steps, grad_output: Value, self: Value, target: Value, reduction: int, delta: float
) -> Value:
    # The gradient of the loss is often one number, which is cheaper to multiply by than self's gradient.
    scaled = grad_output if delta == 1 else steps("muls", {"self": grad_output}, other=float(delta))
    return _smooth_backward(steps, scaled, self, target, reduction, delta)


def _logits_loss(
    steps: Steps,
    self: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = 1,
) -> Value:
    inputs = {"self": self, "target": target, "weight": weight, "pos_weight": pos_weight}
    return steps("binary_cross_entropy_with_logits", inputs, reduction=reduction)


def _entropy(steps: Steps, self: Value, target: Value, weight: Value | None = None, reduction: int = 1) -> Value:
    """Logarithms are at least -100, as in PyTorch."""
    share, wanted = (cast(steps, each, torch.float32) for each in (self, target))
    rest = steps("adds", {"self": steps("muls", {"self": share}, other=-1.0)}, other=1.0)
    of_share, of_rest = (
        steps("clamp", {"self": steps("log", {"self": each})}, clip_value_min=-100.0) for each in (share, rest)
    )
    # target * (rest - share) - rest
    difference = steps("sub", {"self": of_rest, "other": of_share})
    loss = steps("sub", {"self": steps("mul", {"self": wanted, "other": difference}), "other": of_rest})
    if weight is not None:
        loss = steps("mul", {"self": loss, "other": weight})
    if reduction:
        loss = steps("mean" if reduction == _MEAN else "reduce_sum", {"self": loss})
    return cast(steps, loss, self.dtype)


def _entropy_backward(
    steps: Steps, grad_output: Value, self: Value, target: Value, weight: Value | None = None, reduction: int = 1
) -> Value:
    inputs = {"grad_output": grad_output, "self": self, "target": target, "weight": weight}
    return steps("binary_cross_entropy_backward", inputs, reduction=reduction)


def _weights(self: Value, weight: Value | None) -> Value:
    """Returns the weights of classes along their axis: the only one, or the second."""
    return np.ones(self.shape[min(1, self.ndim - 1)], self.dtype) if weight is None else weight


def _nll_loss(steps: Steps, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int) -> Any:
    inputs = {"self": self, "target": target, "weight": _weights(self, weight)}
    return steps("nll_loss", inputs, reduction=reduction, ignore_index=ignore_index)


def _nll_loss2d(
    steps: Steps, self: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, Value]:
    rows = reshaped(steps, self.transpose(0, 2, 3, 1), (-1, self.shape[1]))
    out, total = _nll_loss(steps, rows, target.reshape(-1), weight, reduction, ignore_index)
    return (out if reduction else out.reshape(target.shape)), total


def _nll_backward(operator: str) -> Row:
    def add(
        steps: Steps,
        grad_output: Value,
        self: Value,
        target: Value,
        weight: Value | None,
        reduction: int,
        ignore_index: int,
        total_weight: Value,
    ) -> Value:
        inputs = {
            "grad_output": grad_output,
            "self": self,
            "target": target,
            "weight": _weights(self, weight),
            "total_weight": total_weight,
        }
        return steps(operator, inputs, reduction=reduction, ignore_index=ignore_index)

    return add


ROWS: Final[Mapping[Any, Row]] = {
    aten.mse_loss.default: _loss("mse_loss"),
    aten.mse_loss_backward.default: _squares_backward,
    aten.smooth_l1_loss.default: _loss("smooth_l1_loss", "beta"),
    aten.smooth_l1_loss_backward.default: _smooth_backward,
    aten.huber_loss.default: _huber,
    aten.huber_loss_backward.default: _huber_backward,
    aten.binary_cross_entropy.default: _entropy,
    aten.binary_cross_entropy_backward.default: _entropy_backward,
    aten.binary_cross_entropy_with_logits.default: _logits_loss,
    aten.nll_loss_forward.default: _nll_loss,
    aten.nll_loss_backward.default: _nll_backward("nll_loss_backward"),
    aten.nll_loss2d_forward.default: _nll_loss2d,
    aten.nll_loss2d_backward.default: _nll_backward("nll_loss2d_backward"),
}
