"""Losses of each element, with the arguments, warnings and refusals of `torch.nn.functional`."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import _reduction, functional

from aclgrad._client.sync.client import Client
from aclgrad.operators.families.losses.spec import MEAN, NONE, SUM
from aclgrad.torch._account import LocalError
from aclgrad.torch._gemm import HOOKED, has_hooks
from aclgrad.torch._run import of_autocast, run


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

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    rule = code_of(size_average, reduce, reduction)
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

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    rule = code_of(size_average, reduce, reduction)
    _check(input, target, weight, pos_weight)
    return run("binary_cross_entropy_with_logits", client, input, target, weight, pos_weight, rule)


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

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    is_of_batch = reduction == "batchmean"
    rule = code_of(size_average, reduce, "sum" if is_of_batch else reduction)
    reduced = _torch_kl_div(input, target, rule, log_target=log_target, client=client)
    if reduction == "mean" and size_average is None and reduce is None:
        _warn(_DIVIDES)
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

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    return _of_difference(_absolute, input, target, weight, code_of(size_average, reduce, reduction), client)


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

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    return _of_difference(_squared, input, target, weight, code_of(size_average, reduce, reduction), client)


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

    Raises InvalidFieldError if the product of the client's server cannot compute it.
    """
    if not beta >= 0:
        raise LocalError("PyTorch refuses a negative beta")

    def smooth(input: Tensor, target: Tensor, rule: int, client: Client) -> Tensor:
        return run("smooth_l1_loss", client, input, target, rule, float(beta))

    rule = code_of(size_average, reduce, reduction)
    return _of_difference(smooth if beta else _absolute, input, target, None, rule, client)


_BETWEEN: Final = (str(Path(__file__).parent), functional.__file__, torch.overrides.__file__)
"""The files between a user's line and a function here."""
_DIVIDES: Final = (
    "reduction: 'mean' divides the total loss by both the batch size and the support size."
    "'batchmean' divides only by the batch size, and aligns with the KL div math definition."
    "'mean' will be changed to behave the same as 'batchmean' in the next major release."
)


def code_of(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    """Returns PyTorch's code of the reduction, with its warnings and refusals."""
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce)
    code: int = _reduction.get_enum(reduction)
    return code


def _check(input: Tensor, target: Tensor, *weights: Tensor | None) -> None:
    """Raises LocalError if PyTorch refuses the arguments, or this bridge cannot take them."""
    if target.size() != input.size():
        raise LocalError("PyTorch refuses a target of another size")
    if any(each is not None and each.requires_grad for each in weights):
        raise LocalError("weights require grad, and the operator has no gradient of them; detach the weights")
    _check_target(input, target)


def _check_target(input: Tensor, target: Tensor) -> None:
    if target.requires_grad and (torch.compiler.is_compiling() or not input.requires_grad):
        raise LocalError("the target requires grad, and the operator has the gradient of the input")


def _of_difference(
    loss: Callable[..., Tensor], input: Tensor, target: Tensor, weight: Tensor | None, rule: int, client: Client
) -> Tensor:
    """Returns a loss of the difference of broadcasting tensors, with weights for the errors."""
    result = _weighted(loss, input, target, weight, rule, client)
    if target.size() != input.size():
        _warn(
            f"Using a target size ({target.size()}) that is different to the input size ({input.size()}). "
            "This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
    return result


def _weighted(
    loss: Callable[..., Tensor], input: Tensor, target: Tensor, weight: Tensor | None, rule: int, client: Client
) -> Tensor:
    one, other = torch.broadcast_tensors(input, target)
    if weight is None:
        return loss(one, other, rule, client)
    if weight.size() != input.size() or torch.is_autocast_enabled(input.device.type):
        raise LocalError("PyTorch wants a weight for each element, and casts the parts apart within autocast")
    if loss is _squared and has_hooks():
        raise LocalError(HOOKED)
    weighted = loss(one, other, NONE, client) * weight
    if rule == NONE:
        return weighted
    return torch.sum(weighted) if rule == SUM else torch.sum(weighted) / torch.sum(weight)


def _warn(text: str) -> None:
    """Warns like PyTorch's function, about the caller's line, once the loss is known not to stay local."""
    # torch.compile cannot trace a warning.
    if torch.compiler.is_compiling():
        return
    frame, level = sys._getframe(1), 2  # noqa: SLF001 - the warnings of Python 3.11 cannot skip files
    while frame.f_code.co_filename.startswith(_BETWEEN) and frame.f_back is not None:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def _absolute(input: Tensor, target: Tensor, rule: int, client: Client) -> Tensor:
    def tiny(input: Tensor, target: Tensor) -> Tensor:
        return functional.l1_loss(input.new_empty(0), target.new_empty(0))

    input, target = of_autocast(tiny, input, target)
    return run("l1_loss", client, input - target, rule)


def _squared(input: Tensor, target: Tensor, rule: int, client: Client) -> Tensor:
    return run("mse_loss", client, input, target, rule)


def _torch_kl_div(
    input: Tensor, target: Tensor, reduction: int = MEAN, *, log_target: bool = False, client: Client
) -> Tensor:
    _check_target(input, target)
    if has_hooks():
        is_whole = target.size() == torch.broadcast_shapes(input.size(), target.size())
        if log_target or target.requires_grad or not is_whole:
            raise LocalError(HOOKED)
    # PyTorch keeps its exponential, so later in-place changes of the logarithm change no gradient.
    one, other = torch.broadcast_tensors(input, target.clone() if log_target else target)
    return run("kl_div", client, one, other, reduction, log_target)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.binary_cross_entropy: binary_cross_entropy,
    functional.binary_cross_entropy_with_logits: binary_cross_entropy_with_logits,
    functional.kl_div: kl_div,
    torch.kl_div: _torch_kl_div,
    functional.l1_loss: l1_loss,
    functional.mse_loss: mse_loss,
    functional.smooth_l1_loss: smooth_l1_loss,
}
"""Our functions by the functions of PyTorch that they replace."""
