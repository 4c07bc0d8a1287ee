"""Losses, with the arguments, warnings and refusals of `torch.nn.functional`, and gradients from a server."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import _reduction, functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._activations import log_softmax
from aclgrad.torch._cross_entropy import CrossEntropy, in_planes
from aclgrad.torch._run import applied, of_autocast, run

_NONE, _MEAN, _SUM = range(3)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    *,
    client: Client,
) -> Tensor:
    """Measures probabilities against targets, as `torch.nn.functional.binary_cross_entropy`; the gradient is remote.

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    rule = _code(size_average, reduce, reduction)
    _check(input, target, weight)
    if weight is not None:
        weight = weight.expand(torch.broadcast_shapes(target.size(), weight.size()))
    return run("binary_cross_entropy", client, input, target, weight, rule)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
    *,
    client: Client,
) -> Tensor:
    """Measures logits against targets, as PyTorch's function of this name; the gradient is remote.

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    rule = _code(size_average, reduce, reduction)
    _check(input, target, weight, pos_weight)
    return run("binary_cross_entropy_with_logits", client, input, target, weight, pos_weight, rule)


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

    It has no second derivative. Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    rule = _code(size_average, reduce, reduction)
    if not 0 <= label_smoothing <= 1 or not input.dim():
        raise LocalError("PyTorch refuses it")
    input, weight, target = of_autocast(
        lambda input, *_: functional.cross_entropy(input.new_empty(0, 1), input.new_empty(0, 1)), input, weight, target
    )
    if target.shape == input.shape:
        return _of_probabilities(input, target, weight, rule, label_smoothing, client)
    _check_classes(input, target, weight)
    if in_planes(input, target)[0].dim() not in (1, 2, 4):
        raise LocalError("the operators take classes of rows or of planes")
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

    It has no second derivative. Raises InvalidFieldError for what the product of the client's server does not compute.
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


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
    *,
    client: Client,
) -> Tensor:
    """Returns the divergence of Kullback and Leibler, as `torch.nn.functional.kl_div`; the gradient is remote.

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    is_legacy = size_average is not None or reduce is not None
    if reduction == "mean" and not is_legacy:
        warnings.warn(_DIVIDES, stacklevel=2)
    is_of_batch = reduction == "batchmean"
    rule = _code(size_average, reduce, "sum" if is_of_batch else reduction)
    reduced = _torch_kl_div(input, target, rule, log_target=log_target, client=client)
    return reduced / input.size()[0] if is_of_batch and input.dim() else reduced


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    *,
    client: Client,
) -> Tensor:
    """Returns the absolute difference, as `torch.nn.functional.l1_loss`; the gradient is remote.

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    return _of_difference(_absolute, input, target, weight, _code(size_average, reduce, reduction), client)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
    *,
    client: Client,
) -> Tensor:
    """Returns the squared difference, as `torch.nn.functional.mse_loss`; the gradient is remote.

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    return _of_difference(_squared, input, target, weight, _code(size_average, reduce, reduction), client)


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

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    rule = _code(size_average, reduce, reduction)
    _check_classes(input, target, weight)
    rows, classes = in_planes(input, target)
    name = "nll_loss2d" if rows.dim() == 4 else "nll_loss"
    loss: Tensor = run(name, client, rows, classes, weight, rule, ignore_index)[0]
    return loss if rule or loss.shape == target.shape else loss.view(target.shape)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
    *,
    client: Client,
) -> Tensor:
    """Squares differences below `beta`, as `torch.nn.functional.smooth_l1_loss`; the gradient is remote.

    Raises InvalidFieldError for what the product of the client's server does not compute.
    """
    if not beta >= 0:
        raise LocalError("PyTorch refuses a negative beta")

    def smooth(input: Tensor, target: Tensor, rule: int, client: Client) -> Tensor:
        return run("smooth_l1_loss", client, input, target, rule, float(beta))

    rule = _code(size_average, reduce, reduction)
    return _of_difference(smooth if beta else _absolute, input, target, None, rule, client)


_DIVIDES: Final = (
    "reduction: 'mean' divides the total loss by both the batch size and the support size."
    "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
    "'mean' will be changed to behave the same as 'batchmean' in the next major release."
)


def _code(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    """Returns PyTorch's code of the reduction, with its warnings and refusals."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    code: int = _reduction.get_enum(reduction)
    return code


def _check(input: Tensor, target: Tensor, *weights: Tensor | None) -> None:
    """Raises LocalError for what PyTorch refuses, and what this bridge cannot do."""
    if target.size() != input.size():
        raise LocalError("PyTorch refuses a target of another size")
    if any(each is not None and each.requires_grad for each in weights):
        raise LocalError("weights require grad, and the operator has no gradient of them; detach the weights")
    _check_target(target)


def _check_target(target: Tensor) -> None:
    if target.requires_grad and torch.compiler.is_compiling():
        raise LocalError("the target requires grad, of which a compiled graph has no gradient")


def _check_classes(input: Tensor, target: Tensor, weight: Tensor | None) -> None:
    if input.dim() < 1 or target.shape != (*input.shape[:1], *input.shape[2:])[input.dim() == 1 :]:
        raise LocalError("PyTorch wants a class for each row or pixel")
    if weight is not None and (weight.shape != input.shape[min(1, input.dim() - 1) :][:1] or weight.requires_grad):
        raise LocalError("the operator takes a weight for each class, which requires no grad")
    if target.dtype not in (torch.int64, torch.uint8):
        raise LocalError(f"PyTorch takes classes of int64 and uint8, not of {target.dtype}")


def _of_difference(
    loss: Callable[..., Tensor], input: Tensor, target: Tensor, weight: Tensor | None, rule: int, client: Client
) -> Tensor:
    """Returns a loss of the difference of tensors that broadcast, with weights for the errors."""
    if target.size() != input.size():
        warnings.warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size.",
            stacklevel=3,
        )
    one, other = torch.broadcast_tensors(input, target)
    if weight is None:
        return loss(one, other, rule, client)
    if weight.size() != input.size() or torch.is_autocast_enabled(input.device.type):
        raise LocalError("PyTorch wants a weight for each element, and casts the parts apart within autocast")
    weighted = loss(one, other, _NONE, client) * weight
    if rule == _NONE:
        return weighted
    return torch.sum(weighted) if rule == _SUM else torch.sum(weighted) / torch.sum(weight)


def _absolute(input: Tensor, target: Tensor, rule: int, client: Client) -> Tensor:
    def tiny(input: Tensor, target: Tensor) -> Tensor:
        return functional.l1_loss(input.new_empty(0), target.new_empty(0))

    input, target = of_autocast(tiny, input, target)
    return run("l1_loss", client, input - target, rule)


def _squared(input: Tensor, target: Tensor, rule: int, client: Client) -> Tensor:
    return run("mse_loss", client, input, target, rule)


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Tensor | None, rule: int, label_smoothing: float, client: Client
) -> Tensor:
    """Is PyTorch's own formula: autograd has the gradient of the log probabilities, and that of the target."""
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
    if rule == _NONE:
        return -losses.sum(axis)
    if rule == _SUM:
        return -losses.sum()
    return -losses.sum() / (input.numel() // classes) if input.numel() else -losses.sum().fill_(float("nan"))


def _torch_kl_div(
    input: Tensor, target: Tensor, reduction: int = _MEAN, *, log_target: bool = False, client: Client
) -> Tensor:
    _check_target(target)
    one, other = torch.broadcast_tensors(input, target)
    return run("kl_div", client, one, other, reduction, log_target)


def _torch_ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor | Sequence[int],
    target_lengths: Tensor | Sequence[int],
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
    *,
    client: Client,
) -> Tensor:
    (log_probs,) = of_autocast(
        lambda each: torch.ctc_loss(each.new_zeros(1, 1, 1), targets.new_zeros(1, 0).long(), [1], [0]), log_probs
    )
    is_batched = log_probs.dim() == 3
    lengths = [_lengths(each) for each in (input_lengths, target_lengths)]
    rows = log_probs if is_batched else log_probs.unsqueeze(1)
    losses = run("ctc_loss", client, rows, targets.to(rows.device, torch.int64), *lengths, blank, zero_infinity)[0]
    if zero_infinity:
        losses = torch.where(losses == float("inf"), torch.zeros((), dtype=losses.dtype, device=losses.device), losses)
    if reduction == _MEAN:
        return (losses / torch.tensor(lengths[1], dtype=losses.dtype, device=losses.device).clamp_min(1)).mean()
    if reduction == _SUM:
        return losses.sum()
    return losses if is_batched else losses.squeeze(0)


def _lengths(given: Tensor | Sequence[int]) -> list[int]:
    if isinstance(given, Tensor):
        if torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(given):  # noqa: SLF001
            raise LocalError("the lengths are tensors, and the operator takes numbers; give a list")
        return [int(each) for each in given.reshape(-1).tolist()]
    return [given] if isinstance(given, int) else list(given)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.binary_cross_entropy: binary_cross_entropy,
    functional.binary_cross_entropy_with_logits: binary_cross_entropy_with_logits,
    functional.cross_entropy: cross_entropy,
    functional.ctc_loss: ctc_loss,
    torch.ctc_loss: _torch_ctc_loss,
    functional.kl_div: kl_div,
    torch.kl_div: _torch_kl_div,
    functional.l1_loss: l1_loss,
    functional.mse_loss: mse_loss,
    functional.nll_loss: nll_loss,
    functional.smooth_l1_loss: smooth_l1_loss,
}
"""The functions by those of PyTorch that they stand for."""
