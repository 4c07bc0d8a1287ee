"""Dropout: PyTorch draws which elements stay, and the server's gradient is of these."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError
from aclgrad.torch._run import run


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False, *, client: Client) -> Tensor:
    """Zeroes elements with the probability `p`, as `torch.nn.functional.dropout`: the same ones to the bit.

    The gradient is that of the client's server. Raises InvalidFieldError for what its product does not compute.
    """
    if not 0 <= p <= 1:
        raise LocalError("PyTorch refuses a probability that is none")
    if p == 0 or not training or not input.numel():
        return input
    if input.device.type != "cpu":
        raise LocalError(f"devices of the type {input.device.type} have masks of their own")
    # By PyTorch's own steps, which vmap and torch.compile know.
    noise = torch.zeros((), dtype=input.dtype) if p == 1 else torch.empty_like(input).bernoulli_(1 - p).div_(1 - p)
    result: Tensor = run("dropout", client, input, noise, float(p))
    return input.copy_(result) if inplace else result


def _torch_dropout(input: Tensor, p: float, train: bool, *, client: Client) -> Tensor:
    return dropout(input, p, train, client=client)


def _torch_dropout_(input: Tensor, p: float, train: bool, *, client: Client) -> Tensor:
    return dropout(input, p, train, inplace=True, client=client)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.dropout: dropout,
    torch.dropout: _torch_dropout,
    torch.dropout_: _torch_dropout_,
}
"""The functions by those of PyTorch that they stand for."""
