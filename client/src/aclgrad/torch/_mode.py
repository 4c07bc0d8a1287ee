"""Reroutes an unmodified model."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from aclgrad._client.sync.client import Client
from aclgrad.torch._clients import number_of
from aclgrad.torch._functions import rerouted


class remote_backward(TorchFunctionMode):  # noqa: N801 - as torch.no_grad
    """Within the block, the gradients of these functions come from the client's server; backward() may follow it.

    with aclgrad.torch.remote_backward(client):
        loss = model(images).sum()
    loss.backward()
    """

    # A function mode sees the call that a model or module makes, above autograd: it can replace the function with one
    # whose node in the graph keeps the client, so that backward() works after the block, in any thread and compiled. A
    # dispatch mode sees what autograd makes of the call, so it would have to be active in backward() too, and several
    # gradients never reach it under a name of their own: PyTorch pools to 1x1 by a mean and unpools back by a gather.

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self._number = number_of(client)
        self._rerouted = rerouted()

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if function in self._rerouted and torch.is_grad_enabled():
            input = args[0] if args else options["input"]
            if input.requires_grad:
                result = self._rerouted[function](*args, **options, client=self._number)
                if result is not NotImplemented:
                    return result
        return function(*args, **options)
