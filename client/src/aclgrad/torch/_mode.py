"""Reroutes an unmodified model."""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import ContextDecorator
from typing import Any, Final, Self
from weakref import WeakValueDictionary

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.torch._account import UNRECORDED, Account, LocalError
from aclgrad.torch._blocks import OPEN
from aclgrad.torch._clients import number_of
from aclgrad.torch._functions import rerouted
from aclgrad.torch._graph import mark, nodes_of, unnoted
from aclgrad.torch._unseen import Unseen, is_checkpointed

_COMPILED: Final = "functional.pad stays local in what torch.compile has compiled, unseen; call aclgrad.torch.pad"
_COMPILED_CHECKPOINT: Final = "torch.compile shows the block nothing of a checkpoint; checkpoint the compiled module"
_COMPILED_LOCAL: Final = "_compiled_local_"
_BACKWARD: Final = (torch.Tensor.backward, torch.autograd.grad)


class remote_backward(TorchFunctionMode, ContextDecorator):  # noqa: N801 - as torch.no_grad
    """Within the block, the gradients of these functions come from the client's server; backward() may follow it.

    with aclgrad.torch.remote_backward(client) as remote:
        loss = model(images).sum()
    loss.backward()
    print(remote)

    It also decorates a function. `account.calls` counts the calls by function, layer and reason to stay local; printed,
    it is a table. With `strict`, a call that wants a gradient and would stay local raises InvalidFieldError.
    """

    # A function mode sees the call that a model or module makes, above autograd: it can replace the function with one
    # whose node in the graph keeps the client, so that backward() works after the block, in any thread and compiled. A
    # dispatch mode sees what autograd makes of the call, so it would have to be active in backward() too, and several
    # gradients never reach it under a name of their own: PyTorch pools to 1x1 by a mean and unpools back by a gather.

    def __init__(self, client: Client, *, strict: bool = False) -> None:
        super().__init__()
        self.account = Account()
        self.number = number_of(client)
        self._strict = strict
        self._client = client
        self._process = os.getpid()
        self._has_compiled = False
        # Apart from those that nobody keeps, so that the block keeps no graph alive.
        self._results: WeakValueDictionary[int, torch.Tensor] = WeakValueDictionary()
        self._rerouted = rerouted()
        self._unseen = Unseen(self)

    def __enter__(self) -> Self:
        super().__enter__()
        OPEN.blocks.append(self)
        OPEN.has_had_one = True
        self._unseen.watch()
        return self

    def __exit__(self, *error: object) -> None:
        OPEN.blocks.remove(self)
        self._unseen.leave()
        # Generators and tasks may leave blocks in any order.
        inner = []
        while (mode := _pop_mode()) is not self:
            inner.append(mode)
        for mode in reversed(inner):
            _push_mode(mode)
        if error[0] is None:
            self._look_through([each for reference in self._results.valuerefs() if (each := reference()) is not None])

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = kwargs or {}
        if torch.compiler.is_compiling():
            return self._trace(function, args, options)
        if function in _BACKWARD:
            self._look_through(args[0] if args else next(iter(options.values())))
        result = self.call(function, args, options, is_here=True)
        for each in result if isinstance(result, tuple | list) else (result,):
            if isinstance(each, torch.Tensor) and each.requires_grad:
                self._results[id(each)] = each
        return result

    def _trace(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Is `call` for torch.compile, which cannot look into an account: the operation itself counts when it runs."""
        self._has_compiled = True
        if function is torch.ops.higher_order.tag_activation_checkpoint:
            setattr(self, _COMPILED_LOCAL + "checkpoint", _COMPILED_CHECKPOINT)
        reroute = self._rerouted.get(function)
        wants = any(isinstance(each, torch.Tensor) and each.requires_grad for each in (*args, *options.values()))
        if reroute is not None and torch.is_grad_enabled() and wants:
            try:
                return reroute(*args, **options, client=self._client)
            except LocalError as reason:
                # An attribute for each function: a graph that only assigns it is not compiled again for its value.
                setattr(self, _COMPILED_LOCAL + function.__name__, str(reason))
        return function(*args, **options)

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], *, is_here: bool
    ) -> Any:
        """Returns the function's result with a gradient from the server if that has one, and notes whose it is.

        `is_here` says that the block is open in this thread, and not only in the one that began it.
        """
        reroute = self._rerouted.get(function)
        if reroute is None:
            return function(*args, **options)
        try:
            if not torch.is_grad_enabled():
                if not is_checkpointed(self):
                    self.account.note(function.__name__, UNRECORDED)
            elif not any(map(_wants_gradient, (*args, *options.values()))):
                self.account.note(function.__name__, UNRECORDED)
            else:
                if os.getpid() != self._process:
                    raise LocalError("this process was forked off the one that has the client")
                return reroute(*args, **options, client=self._client if is_here else None)
        except LocalError as reason:
            self._stay_local(str(reason), function.__name__)
            # Before the call, which may be one in place.
            inputs = nodes_of((*args, *options.values()))
            result = function(*args, **options)
            mark(result, inputs)
            return result
        return function(*args, **options)

    def _look_through(self, tensors: Any) -> None:
        """Notes the local gradients of a graph that this block has not seen being made."""
        for name in [name for name in vars(self) if name.startswith(_COMPILED_LOCAL)]:
            self._stay_local(self.__dict__.pop(name), name.removeprefix(_COMPILED_LOCAL))
        self._stay_local("TorchScript, or code outside of the block, has called it", *unnoted(tensors))

    def _stay_local(self, because: str, *functions: str) -> None:
        """Notes whose gradients are not the server's; raises InvalidFieldError in a strict block."""
        places = [self.account.note(each, because) for each in functions]
        if self._strict and places:
            where = f"of {places[0].layer} " if places[0].layer else ""
            remedy = "call it outside of the block, or leave strict out"
            raise InvalidFieldError.at(places[0].function, f"{where}would stay local: {because}", remedy)

    def __str__(self) -> str:
        return "\n".join([self.account.table(), *([_COMPILED] if self._has_compiled else [])])


def _wants_gradient(input: Any) -> bool:
    """Says whether a gradient of an argument is recorded; within torch.func, at any level."""
    while isinstance(input, torch.Tensor) and not input.requires_grad:
        if not torch._C._functorch.is_functorch_wrapped_tensor(input):  # noqa: SLF001 - torch.func has no other way
            return False
        input = torch._C._functorch.get_unwrapped(input)  # noqa: SLF001
    return isinstance(input, torch.Tensor)
