"""Reroutes an unmodified model."""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import ContextDecorator
from functools import partial
from types import FrameType
from typing import Any, Final, Self

import torch
from torch.overrides import TorchFunctionMode, _pop_mode, _push_mode

from aclgrad._client.sync.client import Client
from aclgrad.errors import AclgradError, InvalidSettingError
from aclgrad.torch import (
    _activations,
    _attention,
    _class_losses,
    _convolutions,
    _dropout,
    _einsum,
    _losses,
    _pooling,
    _products,
    _sampling,
    _several,
)
from aclgrad.torch._account import UNRECORDED, Account, CallSite, LocalError, layer_of, refusal
from aclgrad.torch._graph import BACKWARD, Graph, missing, nodes_made
from aclgrad.torch._missed_calls import (
    ThreadWatch,
    check_computed_again,
    compute_again_within,
    is_checkpointed,
    is_of_checkpoint,
    is_opened,
    opened,
    with_weight,
)
from aclgrad.torch._nodes import may_be_kernel
from aclgrad.torch._norm_modules import EXCHANGED
from aclgrad.torch._operations import OPEN
from aclgrad.torch._run import check_dense
from aclgrad.torch._tensors import client_of, number_of

_COMPILED: Final = "torch.compile hides functional.pad, which would stay local there; pad by aclgrad.torch.pad"
_COMPILED_CHECKPOINT: Final = "torch.compile shows the block nothing of a checkpoint; checkpoint the compiled module"
_COMPILED_LOCAL: Final = "_compiled_local_"


def rerouted() -> dict[Any, Callable[..., Any]]:
    """Returns the functions by those of PyTorch that they stand for, as far as they are loaded."""
    tables = (
        _convolutions.REROUTED,
        _pooling.REROUTED,
        _sampling.rerouted(),
        _several.REROUTED,
        _activations.REROUTED,
        _attention.REROUTED,
        _losses.REROUTED,
        _class_losses.REROUTED,
        _dropout.REROUTED,
        _products.REROUTED,
        _einsum.REROUTED,
    )
    return {function: remote for table in tables for function, remote in table.items()}


class remote_backward(TorchFunctionMode, ContextDecorator):  # noqa: N801 - as torch.no_grad
    """Within the block, the gradients of these functions come from the client's server; backward() may follow it.

    with aclgrad.torch.remote_backward(client) as remote:
        loss = model(images).sum()
    loss.backward()
    print(remote)

    It also decorates a function. Printed, it is a table of the backward calls of its graphs; `account.calls` has them
    by function, layer and reason to stay local. With `strict`, a function that would stay local raises
    InvalidFieldError: at the call if aclgrad.torch has a function of that name, else when backward() runs or the block
    ends. Plain arithmetic and the functions that `allow` names may stay local.
    """

    # A function mode sees a model's calls above autograd: it can replace a function by one whose node in the graph
    # keeps the client, so that backward() works after the block, in any thread and compiled. A dispatch mode sees calls
    # below autograd, so it would have to be active in backward(), too, and several gradients never reach it by name:
    # PyTorch pools to 1x1 by a mean and unpools back by a gather.

    def __init__(self, client: Client, *, strict: bool = False, allow: Collection[str] = ()) -> None:
        super().__init__()
        if isinstance(allow, str) or not all(isinstance(each, str) for each in allow):
            remedy = 'give the names that print(remote) shows, such as allow=["dropout"]'
            raise InvalidSettingError("allow is no list of names", field="allow", remedy=remedy)
        self.number = number_of(client)
        self._client = client
        self._process = os.getpid()
        self._has_compiled = False
        self._rerouted = rerouted()
        self.graph = Graph(Account(frozenset(allow) if strict else None), (each.__name__ for each in self._rerouted))
        self._thread_watch = ThreadWatch(self)

    @property
    def account(self) -> Account:
        """The backward calls of graphs after backward(), and of living results."""
        self._look_through()
        return self.graph.account

    def __enter__(self) -> Self:
        super().__enter__()
        OPEN.blocks.append(self)
        OPEN.has_had_one = True
        self._thread_watch.watch()
        EXCHANGED.enter()
        return self

    def __exit__(self, *error: object) -> None:
        OPEN.blocks.remove(self)
        EXCHANGED.leave()
        self._thread_watch.leave()
        # Generators and tasks may leave blocks in any order.
        inner = []
        while (mode := _pop_mode()) is not self:
            inner.append(mode)
        for mode in reversed(inner):
            _push_mode(mode)
        if error[0] is None:
            self._look_through()
            self.graph.account.raise_refused()

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
        if is_opened(function):
            return opened(self, function, args, options)
        return self.call(function, args, with_weight(function, options, sys._getframe(1)), is_here=True)  # noqa: SLF001

    def _trace(self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """`call` for torch.compile, which cannot look into an account: the operation counts itself when it runs."""
        self._has_compiled = True
        if function is torch.ops.higher_order.tag_activation_checkpoint:
            setattr(self, _COMPILED_LOCAL + "checkpoint", _COMPILED_CHECKPOINT)
            return function(*args, **options)
        reroute = self._rerouted.get(function)
        wants = any(isinstance(each, torch.Tensor) and each.requires_grad for each in (*args, *options.values()))
        if reroute is not None and torch.is_grad_enabled() and wants:
            try:
                return reroute(*args, **options, client=self._client)
            except LocalError as reason:
                # An attribute for each function: a graph that only assigns it is not recompiled for its value.
                setattr(self, _COMPILED_LOCAL + function.__name__, str(reason))
        result = function(*args, **options)
        if reroute is None and torch.is_grad_enabled() and wants and may_be_kernel(name := function.__name__):
            first = result[0] if isinstance(result, tuple) else result
            if isinstance(first, torch.Tensor) and first.requires_grad:
                setattr(self, _COMPILED_LOCAL + name, missing(name))
        return result

    def note_compiled(self, site: CallSite) -> None:
        """Counts an operation in a compiled graph; a checkpoint there is recomputed within a similar block."""
        self.graph.account.note(site)
        compute_again_within(self.again)

    @property
    def again(self) -> Callable[[], "remote_backward"]:
        """Makes a similar block that counts nothing, for the recomputation of a checkpoint."""
        # Without the block, because a graph does not keep the client.
        return partial(_again, self.number, self.graph.account)

    def check_process(self) -> None:
        """Raises LocalError in a process that has no client."""
        if os.getpid() != self._process:
            raise LocalError("this process was forked off the one that has the client")

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], *, is_here: bool
    ) -> Any:
        """Returns the function's result, with a gradient from the server if it has one, and notes whose it is.

        `is_here`: the block is open in this thread, and not only in the one that began it.
        """
        if function in BACKWARD:
            self._look_through(args[0] if args else next(iter(options.values())))
            self.graph.account.raise_refused()
        frame = sys._getframe(1)  # noqa: SLF001 - the only way to know the layer
        since, reroute, because = nodes_made(), self._rerouted.get(function), None
        if reroute is not None:
            try:
                if self._is_recorded(function, args, options, frame):
                    if reroute is _several.rms_norm:
                        # PyTorch's own consists of parts, each of which saves what it needs.
                        check_computed_again(self.again)
                    found = reroute(*args, **options, client=self._client if is_here else None)
                else:
                    reroute = None
            except LocalError as reason:
                because = str(reason)
            except AclgradError:
                raise
            except Exception as error:  # of arguments that PyTorch refuses, or takes in an unusual form
                if is_of_checkpoint(error):
                    raise
                because = f"the bridge takes no such arguments ({type(error).__name__})"
        if because is not None:
            site = CallSite(function.__name__.strip("_"), layer_of(frame), because)
            if self.graph.account.refuses(site):
                function(*args, **options)  # If PyTorch refuses the call, its error says more.
                raise refusal(site)
            if not torch.is_grad_enabled():  # a checkpoint, which makes no node
                self.graph.account.note(site)
        result = function(*args, **options) if reroute is None or because else found
        if nodes_made() != since:
            is_row = reroute is not None and because is None
            self.graph.label(result, since, getattr(function, "__name__", ""), frame, because, is_row=is_row)
        return result

    def _is_recorded(
        self, function: Callable[..., Any], args: tuple[Any, ...], options: Mapping[str, Any], frame: FrameType
    ) -> bool:
        """Returns whether the call records a gradient; notes one that never does. Raises LocalError if it cannot."""
        is_later = False
        if not torch.is_grad_enabled():
            is_later = is_checkpointed(self)
        elif any(map(_wants_gradient, (*args, *options.values()))):
            self.check_process()
            check_dense(*args, *options.values())
            return True
        if not is_later:
            self.graph.account.note(CallSite(function.__name__.strip("_"), layer_of(frame), UNRECORDED))
        return False

    def _look_through(self, tensors: Any = None) -> None:
        """Notes the backward calls of these tensors, by default of all living results."""
        for name in [name for name in vars(self) if name.startswith(_COMPILED_LOCAL)]:
            function = name.removeprefix(_COMPILED_LOCAL)
            self.graph.account.note(CallSite(function, "", self.__dict__.pop(name)), "torch.compile")
        self.graph.walk(tensors)

    def __str__(self) -> str:
        return "\n".join([self.account.table(), *([_COMPILED] if self._has_compiled else [])])


def _again(number: int, account: Account) -> remote_backward:
    block = remote_backward(client_of(number))
    block.graph.account = account.again()
    return block


def _wants_gradient(input: Any) -> bool:
    """Returns whether a gradient of an argument is recorded; within torch.func, at any level."""
    if isinstance(input, list | tuple):
        return any(map(_wants_gradient, input))
    while isinstance(input, torch.Tensor) and not input.requires_grad:
        if not torch._C._functorch.is_functorch_wrapped_tensor(input):  # noqa: SLF001 - torch.func has no other way
            return False
        input = torch._C._functorch.get_unwrapped(input)  # noqa: SLF001
    return isinstance(input, torch.Tensor)
