"""Dropout: PyTorch draws the elements that stay, and the server computes their gradient."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import check, run


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, client: Client) -> Tensor:
    """Zeroes elements with the probability `p`, as `torch.nn.functional.dropout`: the same ones to the bit.

    The gradient is that of the client's server. Raises InvalidFieldError if its product cannot compute it.
    """
    if not 0 <= p <= 1:
        raise LocalError("PyTorch refuses a probability outside of 0 to 1")
    if isinstance(p, Tensor):
        raise LocalError("the probability is a tensor; give a number")
    if p == 0 or not training or not input.numel():
        return input
    if input.device.type != "cpu":
        raise LocalError(f"devices of the type {input.device.type} have masks of their own")
    # Before anything is drawn: PyTorch would draw again.
    check("dropout", client, input, input, float(p))
    result: Tensor = run("dropout", client, input, _noise(input, p), float(p))
    return input.copy_(result) if inplace else result


def _noise(input: Tensor, p: float) -> Tensor:
    """Returns the factors, computed by PyTorch's own steps, which vmap and torch.compile know."""
    if p == 1:
        return torch.zeros((), dtype=input.dtype)
    # torch.func has other steps, which draw for each element of vmap even if all share one input.
    if not torch.compiler.is_compiling() and torch._C._functorch.peek_interpreter_stack() is not None:  # noqa: SLF001
        return torch.bernoulli(torch.empty(input.shape, dtype=input.dtype), 1 - p).div_(1 - p)
    return torch.empty_like(input).bernoulli_(1 - p).div_(1 - p)


def _torch_dropout(input: Tensor, p: float, train: bool, *, client: Client) -> Tensor:
    return dropout(input, p, train, client=client)


def _torch_dropout_(input: Tensor, p: float, train: bool, *, client: Client) -> Tensor:
    return dropout(input, p, train, inplace=True, client=client)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.dropout: dropout,
    torch.dropout: _torch_dropout,
    torch.dropout_: _torch_dropout_,
}
"""Our functions by the functions of PyTorch that they replace."""
