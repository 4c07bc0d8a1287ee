"""Models' own RMSNorm modules: within a block, their gradients come from `rms_norm_grad`.

PyTorch's modes see such a module as plain arithmetic. So the `forward` of classes whose name ends in RMSNorm is
exchanged while a block is open. The module itself computes the output, to its last bit. The server's gradient is right
only if the module is a root mean square normalisation by its `weight` and `variance_epsilon` or `eps`. Two comparisons
check that: of each call's output, and of output and gradients of a probe with another weight, because ones and zeros
hide much, and a module may detach some of its steps.
"""

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, wraps
from typing import Any, Final, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import _disable_current_modes

from aclgrad.bridges.served_operators import REFUSALS
from aclgrad.errors import AclgradError
from aclgrad.torch._account import CallSite, LocalError, layer_of
from aclgrad.torch._autograd import gradient_of
from aclgrad.torch._graph import Graph, nodes_made
from aclgrad.torch._missed_calls import Block as Seen
from aclgrad.torch._missed_calls import check_computed_again, is_checkpointed
from aclgrad.torch._norm_probe import DTYPES, OTHER, difference, probed, rstd_of
from aclgrad.torch._operations import OPEN, check_served
from aclgrad.torch._rows import OPERATIONS
from aclgrad.torch._run import check_dense, check_reverse, run
from aclgrad.torch._tensors import client_of

NAME: Final = "RMSNorm"
_ROW: Final = OPERATIONS["rms_norm"]
_GRADIENT: Final = gradient_of(_ROW, tuple(each.python_name for each in _ROW.row.spec.inputs[1:]))
_LOCK: Final = threading.Lock()

Forward = Callable[..., Any]


class Block(Seen, Protocol):
    """A `remote_backward`."""

    number: int
    graph: Graph

    @property
    def again(self) -> Callable[[], Any]: ...
    def check_process(self) -> None: ...


class _Normalised(torch.autograd.Function):
    """Returns the module's output with the gradients of root mean square normalisation."""

    @staticmethod
    def forward(input: Tensor, weight: Tensor, output: Tensor, rstd: Tensor, client: int) -> Tensor:
        return output.view_as(output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        input, weight, _, rstd, client = inputs
        ctx.save_for_backward(input, weight, rstd)
        ctx.client = client
        ctx.call_site = CallSite("rms_norm", layer_of(sys._getframe(1)), None)  # noqa: SLF001

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, weight, rstd = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:2])
        values = sent(input, weight, rstd, grad_output)
        try:
            found = _GRADIENT(*values, wanted, ctx.client)
        except AclgradError as error:
            error.message = f"the gradient of {ctx.call_site}: {error.message}"
            raise
        pairs = zip(found, (input, weight), wanted, strict=True)
        gradients = (each.to(of.dtype).reshape(of.shape) if is_wanted else None for each, of, is_wanted in pairs)
        return *gradients, None, None, None


def sent(input: Tensor, weight: Tensor, rstd: Tensor, grad_output: Tensor) -> tuple[Tensor, ...]:
    """Returns the operator's inputs: if the weight's dtype is wider than the input's, so is the output's."""
    dtype = grad_output.dtype
    return grad_output, input.to(dtype), rstd, weight if weight.dtype == torch.float32 else weight.to(dtype)


def normalised(
    block: Block, forward: Forward, module: nn.Module, args: tuple[Any, ...], options: Mapping[str, Any]
) -> Any:
    """Returns the result of the module's `forward`, with a gradient from the block's server if possible."""
    if not torch.is_grad_enabled():
        with suppress(LocalError):
            is_checkpointed(block)  # so that backward() recomputes the module within the block
        return forward(module, *args, **options)
    frame, since = sys._getframe(1), nodes_made()  # noqa: SLF001 - the only way to know the layer
    try:
        input, weight, epsilon = _operands(module, args, options)
        if not _wants_gradient(input) and not _wants_gradient(weight):
            return forward(module, *args, **options)
        block.check_process()
        check_reverse()
        check_dense(input, weight)
        result = _served(block, forward, module, input, weight, epsilon, (args, options))
    except LocalError as reason:
        block.graph.account.tell(CallSite(type(module).__name__, layer_of(frame), str(reason)))
        return forward(module, *args, **options)
    block.graph.label(result, since, "rms_norm", frame, is_row=True)
    return result


def _operands(module: nn.Module, args: tuple[Any, ...], options: Mapping[str, Any]) -> tuple[Tensor, Tensor, float]:
    """Returns input, weight and epsilon; raises LocalError if the module may do more than normalise by them."""
    given = [*args, *options.values()]
    if len(given) != 1 or not isinstance(given[0], Tensor):
        raise LocalError("it takes more than one tensor")
    weight = getattr(module, "weight", None)
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if not isinstance(weight, Tensor) or isinstance(epsilon, bool) or not isinstance(epsilon, float | int):
        raise LocalError("it has no `weight`, or no number as `variance_epsilon` or `eps`")
    parameters = [name for name, each in module._parameters.items() if each is not None]  # noqa: SLF001
    buffers = [name for name, each in module._buffers.items() if each is not None]  # noqa: SLF001
    if parameters != ["weight"] or buffers or module._modules:  # noqa: SLF001
        raise LocalError("it has other parameters, buffers or modules than its weight")
    input = given[0]
    if input.dtype not in DTYPES or weight.dtype not in DTYPES:
        raise LocalError("no product takes its dtypes")
    if not weight.dim() or not weight.numel() or input.shape[-weight.dim() :] != weight.shape:
        raise LocalError("its weight does not have the last sizes of the input")
    return input, weight, float(epsilon)


def _served(
    block: Block,
    forward: Forward,
    module: nn.Module,
    input: Tensor,
    weight: Tensor,
    epsilon: float,
    given: tuple[tuple[Any, ...], Mapping[str, Any]],
) -> Tensor:
    is_transformed = torch._C._functorch.peek_interpreter_stack() is not None  # noqa: SLF001 - torch.func has no other
    key = (forward, module.training, input.dtype, weight.dtype, weight.shape, epsilon, torch.is_autocast_enabled("cpu"))
    verdicts = _verdicts.setdefault(module, {})
    if key not in verdicts:
        verdicts[key] = probed(forward, module, input, weight, epsilon)
    if verdicts[key]:
        raise LocalError(verdicts[key])
    if is_transformed:
        # PyTorch's transforms do not see into a module, so the function replaces it.
        if input.dtype != weight.dtype:
            raise LocalError("within torch.func its weight needs the dtype of the input")
        result: Tensor = run("rms_norm", client_of(block.number), input, list(weight.shape), weight, epsilon)[0]
        return result
    args, options = given
    with torch.no_grad():
        with torch._C.DisableTorchFunction():  # noqa: SLF001 - the block would count its parts as calls
            output = forward(module, *args, **options)
        rstd = rstd_of(input, weight.dim(), epsilon)
        # Hidden from a selective checkpoint, which has to count the same whenever the module is computed.
        with _disable_current_modes():
            because = difference(output, input, weight, epsilon)
        if because:
            raise LocalError(because)
    if not isinstance(output, Tensor) or output.shape != input.shape or output.dtype not in DTYPES:
        raise LocalError(OTHER)
    grad, *others = (each.to("meta") for each in sent(input, weight, rstd, output))
    try:
        values = others[0], list(weight.shape), others[2], epsilon, block.number
        check_served(_ROW, values, (grad, others[1]))
    except REFUSALS as refused:
        raise LocalError(str(refused)) from None
    check_computed_again(block.again)
    normal: Tensor = _Normalised.apply(input, weight, output, rstd, block.number)
    return normal


_verdicts: Final[WeakKeyDictionary[nn.Module, dict[Any, str]]] = WeakKeyDictionary()
"""Why a module stays unchanged, by everything that its forward may depend on; empty if it does not."""


def _wants_gradient(tensor: Tensor) -> bool:
    while not tensor.requires_grad:
        if not torch._C._functorch.is_functorch_wrapped_tensor(tensor):  # noqa: SLF001 - as in _mode
            return False
        tensor = torch._C._functorch.get_unwrapped(tensor)  # noqa: SLF001
    return True


class Exchanged:
    """Exchanges the `forward` of the classes while a block is open in any thread."""

    def __init__(self) -> None:
        self._entries = 0
        self._kept: dict[type[nn.Module], tuple[Forward, bool]] = {}

    def enter(self) -> None:
        with _LOCK:
            self._entries += 1
            for each in _classes():
                forward = each.forward
                if each not in self._kept and getattr(forward, "__code__", None) is not _CODE:
                    self._kept[each] = forward, "forward" in vars(each)
                    each.forward = _exchanged(forward)

    def leave(self) -> None:
        with _LOCK:
            self._entries -= 1
            if self._entries:
                return
            for each, (forward, is_own) in self._kept.items():
                # Other code may have exchanged it since.
                if vars(each).get("forward") is _exchanged(forward):
                    if is_own:
                        each.forward = forward
                    else:
                        del each.forward
            self._kept.clear()


EXCHANGED: Final = Exchanged()


# One per function, so that torch.compile does not see a new function in every block.
@cache
def _exchanged(forward: Forward) -> Forward:
    @wraps(forward)
    def call(self: nn.Module, *args: Any, **options: Any) -> Any:
        is_seen = OPEN.blocks and not torch._C._is_torch_function_all_disabled()  # noqa: SLF001 - not in a probe
        if torch.compiler.is_compiling() or not is_seen or not type(self).__name__.endswith(NAME):
            return forward(self, *args, **options)
        return normalised(OPEN.blocks[-1], forward, self, args, options)  # type: ignore[arg-type]

    return call


_CODE: Final = _exchanged(lambda self: self).__code__


def _classes() -> Iterator[type[nn.Module]]:
    """Yields the classes except PyTorch's own, whose function a block reroutes."""
    waiting, seen = [nn.Module], {nn.Module}
    while waiting:
        for each in type.__subclasses__(waiting.pop()):
            if each in seen:
                continue
            seen.add(each)
            waiting.append(each)
            if not each.__name__.endswith(NAME) or each.__module__.startswith("torch."):
                continue
            if each.forward is not nn.RMSNorm.forward:
                yield each
