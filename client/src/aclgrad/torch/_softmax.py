"""Softmax and its logarithm, as a function of torch.nn.functional and as one of torch or a method of a tensor."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import in_order, of_autocast, run


def softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None, *, client: Client
) -> Tensor:
    """Divides the powers of e by their sum along `dim`, as `torch.nn.functional.softmax` does.

    The gradient is that of the client's server, and has no second derivative. Raises InvalidFieldError for what its
    product does not compute.
    """
    return _run("softmax", torch.softmax, input, dim, dtype, client)


def log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: torch.dtype | None = None, *, client: Client
) -> Tensor:
    """Returns the logarithm of softmax along `dim`, as `torch.nn.functional.log_softmax` does. As `softmax`."""
    return _run("log_softmax", torch.log_softmax, input, dim, dtype, client)


def _cross_entropy(
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
    """Is PyTorch's own, which computes both parts at once."""
    if label_smoothing or target.is_floating_point():
        raise LocalError("log_softmax is a part of it for targets that are classes, without label_smoothing")
    input, weight = of_autocast(
        lambda input, weight: functional.cross_entropy(input.new_empty(0, 1), target.new_empty(0)), input, weight
    )
    likelihoods = log_softmax(input, min(1, max(input.dim() - 1, 0)), client=client)
    return functional.nll_loss(likelihoods, target, weight, size_average, ignore_index, reduce, reduction)


def _run(
    name: str,
    function: Callable[..., Tensor],
    input: Tensor,
    dim: int | None,
    dtype: torch.dtype | None,
    client: Client,
) -> Tensor:
    rank = max(input.dim(), 1)
    if not isinstance(dim, int) or not -rank <= dim < rank:
        raise LocalError(f"the operator takes an axis, and dim is {dim}")
    if dtype is None:
        (cast,) = of_autocast(lambda each: function(each.new_empty(0), 0), input)
    else:
        cast = input.to(dtype)
    result: Tensor = run(name, client, cast, dim if dim < 0 else dim - rank)
    return result


REROUTED: dict[Any, Callable[..., Any]] = {
    functional.softmax: softmax,
    functional.log_softmax: log_softmax,
    functional.cross_entropy: _cross_entropy,
    **dict.fromkeys((torch.softmax, torch.Tensor.softmax), in_order("input dim dtype", softmax)),
    **dict.fromkeys((torch.log_softmax, torch.Tensor.log_softmax), in_order("input dim dtype", log_softmax)),
}
