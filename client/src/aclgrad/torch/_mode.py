"""Reroutes an unmodified model."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.torch._account import Account, ForeignError, LocalError
from aclgrad.torch._clients import number_of
from aclgrad.torch._functions import rerouted


class remote_backward(TorchFunctionMode, ContextDecorator):  # noqa: N801 - as torch.no_grad
    """Within the block, the gradients of these functions come from the client's server; backward() may follow it.

    with aclgrad.torch.remote_backward(client) as remote:
        loss = model(images).sum()
    loss.backward()
    print(remote)

    It also decorates a function. `account.calls` counts the calls by function, layer and reason to stay local, but for
    what torch.compile has compiled; printed, it is a table. With `strict`, a call that wants a gradient and would stay
    local raises InvalidFieldError.
    """

    # A function mode sees the call that a model or module makes, above autograd: it can replace the function with one
    # whose node in the graph keeps the client, so that backward() works after the block, in any thread and compiled. A
    # dispatch mode sees what autograd makes of the call, so it would have to be active in backward() too, and several
    # gradients never reach it under a name of their own: PyTorch pools to 1x1 by a mean and unpools back by a gather.

    def __init__(self, client: Client, *, strict: bool = False) -> None:
        super().__init__()
        self.account = Account()
        self._strict = strict
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
        reroute = self._rerouted.get(function)
        if reroute is None:
            return function(*args, **options)
        input = args[0] if args else options["input"]
        if not torch.is_grad_enabled() or not input.requires_grad:
            self._note(function, "no gradient is recorded")
            return function(*args, **options)
        try:
            result = reroute(*args, **options, client=self._number)
        except ForeignError:
            return function(*args, **options)
        except LocalError as reason:
            self._note(function, str(reason), is_wanted=True)
            return function(*args, **options)
        self._note(function, None)
        return result

    def _note(self, function: Callable[..., Any], because: str | None, *, is_wanted: bool = False) -> None:
        if torch.compiler.is_compiling():
            return
        place = self.account.note(function.__name__, because)
        if self._strict and is_wanted:
            where = f" of {place.layer}" if place.layer else ""
            remedy = "call it outside of the block, or leave strict out"
            raise InvalidFieldError.at(place.function, f"{where} would stay local: {because}".lstrip(), remedy)

    def __str__(self) -> str:
        return self.account.table()
