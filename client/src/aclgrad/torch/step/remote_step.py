"""A training step on a server: `remote_step`."""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import forget, served_by
from aclgrad.errors import InvalidFieldError, OtherProductError
from aclgrad.torch._operations import OPEN
from aclgrad.torch._tensors import number_of
from aclgrad.torch.step.building import planned
from aclgrad.torch.step.called import Batch, Called, LossFunction
from aclgrad.torch.step.explaining import explained
from aclgrad.torch.step.key import key_of
from aclgrad.torch.step.plan import Plan
from aclgrad.torch.step.running import run
from aclgrad.torch.step.tracing import trace
from aclgrad.torch.step.verifying import by_pytorch, difference, drawing_again, noise_of, raise_difference

_TRACES: Final = 16
"""Number of recently used plans that are kept."""


@dataclass(slots=True)
class _Kept:
    """A plan, and how often it has run."""

    plan: Plan
    runs: int = 0


class RemoteStep:
    """A training step of a model whose operators a server computes; `remote_step` makes it."""

    def __init__(
        self, model: nn.Module, loss_function: LossFunction, client: Client, *, verify_every: int, strict: bool
    ) -> None:
        self._called = Called(model, loss_function)
        self._client = client
        self._verify_every = verify_every
        self._strict = strict
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._latest: Plan | None = None
        self._lock = threading.RLock()

    def __call__(self, *args: Any, gradient: Tensor | None = None, **options: Any) -> Any:
        """Computes the loss for a batch, adds to the gradients of the parameters, and changes buffers.

        Returns what the loss function returns, without a graph. `gradient` is that of the loss, by default 1. Within
        `torch.no_grad()` it computes no gradients. A step that raises an error has changed nothing.
        """
        batch = Batch(args, options)
        with self._lock:
            self._check(batch, gradient)
            state = torch.get_rng_state()
            try:
                try:
                    return self._step(batch, gradient, state)
                except OtherProductError:
                    # Another card answers now, and its product has other steps.
                    forget(self._client)
                    torch.set_rng_state(state)
                    return self._step(batch, gradient, state)
            except BaseException:
                torch.set_rng_state(state)
                raise

    def prepared(self, batch: Batch, gradient: Tensor | None) -> tuple[Plan, list[Tensor]]:
        """Returns the plan of a step, and the inputs of its trace; raises as a call does, and runs nothing."""
        with self._lock:
            self._check(batch, gradient)
            return self._plan(batch, gradient).plan, self._inputs(batch, gradient)

    def explain(self) -> str:
        """Returns what the latest step sends, runs and leaves to PyTorch, and why."""
        return explained(self._plan_of_latest)

    @property
    def sent_bytes(self) -> int:
        """The bytes of the tensors that the latest step has sent."""
        return sum(each.sent_bytes for each in self._plan_of_latest.costs)

    @property
    def received_bytes(self) -> int:
        """The bytes of the tensors that came back in the latest step."""
        return sum(each.received_bytes for each in self._plan_of_latest.costs)

    @property
    def _plan_of_latest(self) -> Plan:
        if self._latest is None:
            raise InvalidFieldError.at("step", "has not run", "call it with a batch first")
        return self._latest

    def reset(self) -> None:
        """Forgets all traces: the next step is traced anew, as after a change of the model's Python state."""
        with self._lock:
            self._kept.clear()

    def __repr__(self) -> str:
        return f"<aclgrad.torch.RemoteStep of {type(self._called.model).__name__} at {self._client.target}>"

    def _step(self, batch: Batch, gradient: Tensor | None, state: Tensor) -> Any:
        kept = self._plan(batch, gradient)
        inputs = self._inputs(batch, gradient)
        found = run(kept.plan, inputs)
        if self._verify_every and kept.runs % self._verify_every == 0:
            self._verify(kept.plan, batch, gradient, inputs, found, state)
        kept.runs += 1
        return self._take(kept.plan, found)

    def _verify(
        self,
        plan: Plan,
        batch: Batch,
        gradient: Tensor | None,
        inputs: Sequence[Tensor],
        found: Mapping[fx.Node, Tensor],
        state: Tensor,
    ) -> None:
        """Raises an error for a step that is not PyTorch's own."""
        with drawing_again(state):
            own = by_pytorch(self._called, batch, gradient, is_backward=any(plan.trace.gradients)).of(plan.trace)
        if not difference(plan.trace, found, own):
            return
        noise = noise_of(plan, inputs, state)
        if what := difference(plan.trace, found, own, noise):
            raise_difference(self._called, batch, gradient, plan, inputs, state, noise, what)

    def _inputs(self, batch: Batch, gradient: Tensor | None) -> list[Tensor]:
        inputs = [*self._called.parameters(), *self._called.buffers(), *batch.tensors]
        return inputs if gradient is None else [*inputs, gradient]

    def _check(self, batch: Batch, gradient: Tensor | None) -> None:
        if OPEN.blocks:
            problem = "runs within a block of remote_backward"
            raise InvalidFieldError.at("step", problem, "leave the block: a step has gradients of its own")
        names = [*self._called.named_parameters(), *self._called.named_buffers()]
        given = [(f"batch tensor {number}", each) for number, each in enumerate(batch.tensors)]
        for name, each in [*names, *given, *([] if gradient is None else [("gradient", gradient)])]:
            if each.device.type != "cpu":
                problem, remedy = f"is on the device {each.device}", "move the model and the batch to the CPU"
                raise InvalidFieldError.at(name.removeprefix("model."), problem, remedy)
            if each.layout is not torch.strided or each.is_nested:
                raise InvalidFieldError.at(name.removeprefix("model."), "is not dense", "give dense tensors")

    def _plan(self, batch: Batch, gradient: Tensor | None) -> _Kept:
        """Returns the plan for a step like this, and makes it at first."""
        served = served_by(self._client)
        key = key_of(self._called, batch, gradient, served)
        kept = self._kept.get(key)
        if kept is None:
            product = "" if served.product is None else served.product.value
            traced = trace(self._called, batch, gradient, is_backward=torch.is_grad_enabled())
            plan = planned(traced, served, lambda: self._client.program(product), is_strict=self._strict)
            kept = self._kept[key] = _Kept(plan)
            if len(self._kept) > _TRACES:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        self._latest = kept.plan
        return kept

    def _take(self, plan: Plan, found: dict[fx.Node, Tensor]) -> Any:
        """Adds the gradients, changes the buffers, and returns what the loss function returned."""
        trace, taken = plan.trace, set()

        def own(node: fx.Node) -> Tensor:
            value = found[node]
            # A copy: two gradients may be one tensor, and the batch stays the caller's.
            is_first = node not in taken and node not in trace.inputs
            taken.add(node)
            return value if is_first else value.clone()

        buffers = list(self._called.buffers())
        with torch.no_grad():
            for number, node in trace.buffers.items():
                buffers[number].copy_(found[node])
        # In about the order of a backward pass, for hooks.
        for parameter, gradient in reversed(list(zip(self._called.parameters(), trace.gradients, strict=True))):
            if gradient is not None:
                add_gradient(parameter, own(gradient))
        left = iter(trace.results)
        return pytree.tree_map_only(Tensor, lambda _: own(next(left)), trace.result)


def add_gradient(parameter: Tensor, gradient: Tensor) -> None:
    """Adds to the gradient of a parameter through its hooks, like `backward`."""
    if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:  # noqa: SLF001 - there is no public name
        torch.autograd.backward([parameter], [gradient])
    elif parameter.grad is None:
        parameter.grad = gradient
    else:
        with torch.no_grad():
            parameter.grad.add_(gradient)


def remote_step(
    model: nn.Module,
    loss_function: LossFunction,
    client: Client,
    *,
    verify_every: int = 100,
    strict: bool = False,
) -> RemoteStep:
    """Returns a training step whose forward pass, loss and backward pass a server computes as one program.

    step = aclgrad.torch.remote_step(model, lambda model, x, y: F.cross_entropy(model(x), y), client)
    for images, labels in batches:
        optimizer.zero_grad()
        loss = step(images, labels)
        optimizer.step()

    `loss_function` takes the model and the batch, and returns the loss, or a tuple that begins with it. A call adds to
    `.grad` of the parameters, as `loss.backward()` does, and changes buffers, such as running statistics. Parameters
    are sent with each step: nothing of it stays on the server.

    The step is traced once for each form of batch, model and modes of PyTorch. What is not a tensor, such as counters
    in Python, stays as it was then. Therefore the first step of a trace, and each `verify_every`-th after it, also run
    here, and StepDiffersError names the first module that differs; 0 does without. With `strict`, a function without
    an operator is an InvalidFieldError instead of running here, between two programs.
    """
    number_of(client)  # raises unless it is a client
    # A compiled model is traced as its original.
    model = getattr(model, "_orig_mod", model)
    if not isinstance(model, nn.Module) or isinstance(model, torch.jit.ScriptModule):
        raise InvalidFieldError.at("model", f"is a {type(model).__name__}", "give a torch.nn.Module of Python")
    if not callable(loss_function):
        problem, remedy = f"is a {type(loss_function).__name__}", "give a function of the model and the batch"
        raise InvalidFieldError.at("loss_function", problem, remedy)
    if not isinstance(verify_every, int) or verify_every < 0:
        raise InvalidFieldError.at("verify_every", f"is {verify_every!r}", "give a number of steps, 0 for never")
    return RemoteStep(model, loss_function, client, verify_every=verify_every, strict=strict)
