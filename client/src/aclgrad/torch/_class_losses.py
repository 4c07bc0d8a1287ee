"""Losses of classes and of sequences of classes, with the arguments and refusals of `torch.nn.functional`."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import _reduction, functional

from aclgrad._client.sync.client import Client
from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM
from aclgrad.torch._account import LocalError
from aclgrad.torch._activations import log_softmax
from aclgrad.torch._cross_entropy import CrossEntropy, in_planes
from aclgrad.torch._losses import code_of
from aclgrad.torch._run import applied, of_autocast, run


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    *,
    client: Client,
) -> Tensor:
    """Measures logits against classes or probabilities, as `torch.nn.functional.cross_entropy`; the gradient is remote.

    It has no second derivative. Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    rule = code_of(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1 or not input.dim():
        raise LocalError("PyTorch refuses it")
    input, weight, target = of_autocast(
        lambda input, *_: functional.cross_entropy(input.new_empty(0, 1), input.new_empty(0, 1)), input, weight, target
    )
    if target.shape == input.shape:
        return _of_probabilities(input, target, weight, rule, label_smoothing, client)
    _check_classes(input, target, weight)
    loss: Tensor = applied(CrossEntropy, client, input, target, weight, rule, ignore_index, float(label_smoothing))[0]
    return loss


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
    *,
    client: Client,
) -> Tensor:
    """Measures log probabilities against shorter sequences, as `torch.nn.functional.ctc_loss`; the gradient is remote.

    It has no second derivative. Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    return _torch_ctc_loss(
        log_probs,
        targets,
        input_lengths,
        target_lengths,
        blank,
        _reduction.get_enum(reduction),
        zero_infinity,
        client=client,
    )


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    client: Client,
) -> Tensor:
    """Takes the log probabilities of classes, as `torch.nn.functional.nll_loss`; the gradient is remote.

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    rule = code_of(size_average, reduce, reduction)
    _check_classes(input, target, weight)
    rows, classes = in_planes(input, target)
    name = "nll_loss2d" if rows.dim() == 4 else "nll_loss"
    loss: Tensor = run(name, client, rows, classes, weight, rule, ignore_index)[0]
    return loss if rule or loss.shape == target.shape else loss.view(target.shape)


def _check_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    if input.dim() < 1 or target.shape != (*input.shape[:1], *input.shape[2:])[input.dim() == 1 :]:
        raise LocalError("PyTorch wants a class for each row or pixel")
    if weight is not None and (weight.shape != input.shape[min(1, input.dim() - 1) :][:1] or weight.requires_grad):
        raise LocalError("the operator takes a weight for each class, which requires no grad")
    if target.dtype not in (torch.int64, torch.uint8):
        raise LocalError(f"PyTorch takes classes of int64 and uint8, not of {target.dtype}")
    if target.dtype is torch.uint8 and not input.numel():
        raise LocalError("PyTorch refuses uint8 classes of some empty inputs")


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, rule: int, label_smoothing: float, client: Client
) -> Tensor:
    """PyTorch's own formula: autograd computes the gradients of log probabilities and target."""
    axis = min(1, input.dim() - 1)
    if not target.is_floating_point() or (weight is not None and weight.shape != input.shape[axis : axis + 1]):
        raise LocalError("PyTorch refuses it")
    classes = input.shape[axis]
    log_probs = log_softmax(input, axis, client=client)
    if label_smoothing > 0:
        target = target * (1 - label_smoothing) + label_smoothing / classes
    losses = log_probs * target
    if weight is not None:
        losses = losses * weight.view([-1 if each == axis else 1 for each in range(input.dim())])
    if rule == NONE:
        return -losses.sum(axis)
    if rule == SUM:
        return -losses.sum()
    return -losses.sum() / (input.numel() // classes) if input.numel() else -losses.sum().fill_(float("nan"))


def _torch_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = MEAN,
    zero_infinity: bool = False,
    *,
    client: Client,
) -> Tensor:
    (log_probs,) = of_autocast(
        lambda each: torch.ctc_loss(each.new_zeros(1, 1, 1), targets.new_zeros(1, 0).long(), [1], [0]), log_probs
    )
    is_batched = log_probs.dim() == 3
    if isinstance(input_lengths, Tensor) is not isinstance(target_lengths, Tensor):
        raise LocalError("PyTorch takes two tensors or two lists of lengths")
    lengths = [_lengths(each) for each in (input_lengths, target_lengths)]
    rows = log_probs if is_batched else log_probs.unsqueeze(1)
    losses = run("ctc_loss", client, rows, targets.to(rows.device, torch.int64), *lengths, blank, zero_infinity)[0]
    if zero_infinity:
        losses = torch.where(losses == float("inf"), torch.zeros((), dtype=losses.dtype, device=losses.device), losses)
    if reduction == MEAN:
        return (losses / torch.tensor(lengths[1], dtype=losses.dtype, device=losses.device).clamp_min(1)).mean()
    if reduction == SUM:
        return losses.sum()
    return losses if is_batched else losses.squeeze(0)


def _lengths(given: Tensor | Sequence[int]) -> list[int]:
    if isinstance(given, Tensor):
        if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(given):  # noqa: SLF001
            raise LocalError("the lengths are tensors, and the operator takes numbers; give a list")
        return [int(each) for each in given.reshape(-1).tolist()]
    return list(given)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.cross_entropy: cross_entropy,
    functional.ctc_loss: ctc_loss,
    torch.ctc_loss: _torch_ctc_loss,
    functional.nll_loss: nll_loss,
}
"""Our functions by the functions of PyTorch that they replace."""
