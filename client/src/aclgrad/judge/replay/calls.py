"""One PyTorch call, and its gradients in float64, by PyTorch's own kernels, and by a server.

Calls of a dump and of a user's own training step are judged in this form.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter
from typing import Any, Final, Self

import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.judge.dumps.recorded import mapped, tensors_of
from aclgrad.judge.dumps.runs import WIDE
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Verdict
from aclgrad.judge.replay.sent import limit_of
from aclgrad.torch.calls import (
    Array,
    LocalError,
    SentCall,
    array_of,
    dtype_name,
    record_sent_calls,
)

Gradients = dict[str, Tensor]
"""By the tensor's position: "0", "1", ... among the positional tensors, or the name of the argument."""


@dataclass(frozen=True, slots=True)
class PyTorchCall:
    """A differentiable call of a PyTorch function, with tensors on any device.

    `remote` is the same function with the gradients of a client's server, or None if no operator computes them. Tensors
    of `args`, also in nested lists, and of `kwargs` that require grad get a gradient. `grad_output` is the gradient of
    the output, or of the first of several. `autocast` is the dtype of an active autocast.
    """

    function: Callable[..., Any]
    remote: Callable[..., Any] | None
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    grad_output: Tensor
    autocast: torch.dtype | None = None

    def inputs(self) -> dict[str, Tensor]:
        """Returns the tensors by position."""
        positional = {str(number): each for number, each in enumerate(tensors_of(self.args))}
        return {**positional, **{name: each for name, each in self.kwargs.items() if isinstance(each, Tensor)}}

    def names(self) -> dict[str, str]:
        """Returns the names of the function's parameters by the positions of the tensors."""
        parameters = list(inspect.signature(self.remote).parameters.values()) if self.remote else []
        named = [each.name for each in parameters if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        rest = next((each.name for each in parameters if each.kind is Parameter.VAR_POSITIONAL), "")
        names, position = {}, 0
        for number, argument in enumerate(self.args):
            within, own = tensors_of(argument), str(number)
            if number < len(named):
                own = named[number]
            elif rest:
                own = f"{rest}[{number - len(named)}]"
            for index in range(len(within)):
                names[str(position)] = own if len(within) == 1 else f"{own}[{index}]"
                position += 1
        return {**names, **{name: name for name in self.kwargs}}

    @property
    def size_bytes(self) -> int:
        """The bytes of its tensors, each counted once."""
        return sum(each.numel() * each.element_size() for each in (*self.inputs().values(), self.grad_output))

    def detached(self) -> Self:
        """Returns the call without its tensors' graphs, which hold the tensors of the whole step."""
        args, kwargs, grad_output = mapped(Tensor.detach, (self.args, dict(self.kwargs), self.grad_output))
        return replace(self, args=args, kwargs=kwargs, grad_output=grad_output)

    def check_output(self, client: Client) -> None:
        """Raises LocalError if the output's shape would not be that of `grad_output`.

        Computes and allocates nothing, because a few numbers may ask for an output of any size.
        """
        if self.remote is None:
            return
        args, kwargs = (mapped(lambda each: each.detach().to("meta"), each) for each in (self.args, dict(self.kwargs)))
        with torch.no_grad():
            output = self.remote(*args, **kwargs, client=client)
        shape = (output[0] if isinstance(output, tuple | list) else output).shape
        if shape != self.grad_output.shape:
            raise LocalError(f"the output is {tuple(shape)}, and its gradient {tuple(self.grad_output.shape)}")

    def gradients(self, function: Callable[..., Any] | None = None, *, device: str | None = None) -> Gradients:
        """Returns PyTorch's gradients of the function, by default the call's own."""
        output, inputs = self._run(function or self.function, device)
        return _grad(output, inputs, self.grad_output)

    def wide_gradients(self) -> tuple[Gradients, Gradients]:
        """Returns the gradients in float64, or complex128, on the CPU, and how far rounding moves them.

        They are linear in `grad_output`: each of its elements is moved up or down by half a unit in the last place; of
        float32 even for halves, whose sums are float32.
        """
        output, inputs = self._run(self.function, None, wide=True)
        half_ulp = torch.finfo(max(self.grad_output.dtype, torch.float32, key=lambda each: each.itemsize)).eps / 2
        sign = torch.empty(output.shape).bernoulli_(generator=torch.Generator().manual_seed(0)) * 2 - 1
        found = _grad(output, inputs, self.grad_output, retain_graph=True)
        return found, _grad(output, inputs, self.grad_output.detach().to(output) * sign * half_ulp)

    def _run(
        self, function: Callable[..., Any], device: str | None, *, wide: bool = False
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the output that has a gradient, and the tensors that get one."""
        made: dict[int, tuple[Tensor, Tensor]] = {}

        def copies(tensor: Tensor) -> tuple[Tensor, Tensor]:
            """Returns the leaf, and a copy for the function, which may change its arguments."""
            if id(tensor) not in made:
                dtype = WIDE.get(tensor.dtype, tensor.dtype) if wide else tensor.dtype
                leaf = tensor.detach().to(device="cpu" if wide else device or tensor.device, dtype=dtype)
                made[id(tensor)] = leaf.requires_grad_(tensor.requires_grad), leaf.clone()
            return made[id(tensor)]

        kind = self.grad_output.device.type if device is None else torch.device(device).type
        with torch.enable_grad(), torch.autocast(kind, self.autocast, enabled=not wide and self.autocast is not None):
            inputs = {name: copies(tensor)[0] for name, tensor in self.inputs().items() if tensor.requires_grad}
            args, kwargs = mapped(lambda each: copies(each)[1], (self.args, dict(self.kwargs)))
            output = function(*args, **kwargs)
        return output[0] if isinstance(output, tuple | list) else output, inputs


@dataclass(frozen=True, slots=True)
class Expected:
    """The right gradients of a call (`truths`, float64), and those of PyTorch's own kernels.

    `rounding` is how far the truths move if the call's inputs are rounded.
    """

    truths: Mapping[str, Array]
    benchmarks: Mapping[str, Array]
    rounding: Mapping[str, Array]

    @classmethod
    def of(cls, call: PyTorchCall, device: str | None = None) -> "Expected":
        """Computes all, the benchmarks on the call's device or on the given one."""
        truths, rounding = map(_arrays, call.wide_gradients())
        return cls(truths, _arrays(call.gradients(device=device)), rounding)


_DROPOUT: Final = "dropout_do_mask"
"""The operator of a dropout, a call by itself or a part of attention."""


@dataclass(frozen=True, slots=True)
class ServerGradients:
    """A server's gradients of a call, and the call sent for them; `names` are the arguments' names."""

    gradients: Mapping[str, Array]
    sent: tuple[SentCall, ...]
    names: Mapping[str, str]

    @classmethod
    def of(cls, call: PyTorchCall, client: Client) -> "ServerGradients":
        """Raises LocalError, with the reason, if no operator of the server computes the gradients."""
        if call.remote is None:
            raise LocalError(f"no operator computes the gradient of {call.function.__name__}")
        with record_sent_calls() as sent:
            gradients = call.gradients(partial(call.remote, client=client), device="cpu")
        if len(sent) > 1 and any(each.operator == _DROPOUT for each in sent):
            raise LocalError("it drops other weights each time; compare it without dropout_p")
        return cls(_arrays(gradients), tuple(sent), call.names())

    def judge(self, name: str, expected: Expected, client: Client) -> Finding:
        """Compares one gradient with the right one, by the tolerance of its operators on the server's product.

        Wrong gradients of values that the product's precision cannot hold are noted: they are infinite there.
        """
        gradient = self.gradients[name]
        limit = limit_of(self.sent, self.names[name], gradient, served_by(client).product)
        finding = comparison.against_benchmark(
            gradient, expected.truths[name], expected.benchmarks[name], limit.tolerance, expected.rounding[name]
        )
        if finding.verdict is Verdict.FAILED and (excess := limit.excess):
            return replace(finding, verdict=Verdict.NOTED, message=excess)
        return finding


def _grad(
    output: Tensor, inputs: Mapping[str, Tensor], grad_output: Tensor, *, retain_graph: bool = False
) -> Gradients:
    given = grad_output.detach().to(output)
    found = torch.autograd.grad(output, tuple(inputs.values()), given, retain_graph=retain_graph)
    return dict(zip(inputs, found, strict=True))


def _arrays(gradients: Gradients) -> dict[str, Array]:
    return {name: array_of(each) for name, each in gradients.items()}


def dtype_of(call: PyTorchCall) -> str:
    """Returns the name of the dtype of the call's gradient."""
    return dtype_name(call.grad_output)
