"""Calls the model and the loss function with tensors instead of parameters and buffers."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import Node
from torch.utils import _pytree as pytree

from aclgrad.errors import InvalidFieldError

LossFunction = Callable[..., Any]
"""Takes the model and the batch; returns the loss, or a tuple of the loss and further values."""


Note = Callable[[str, list[Tensor]], None]


class Called(nn.Module):
    """The model and the loss function as one module; its parameters are the model's."""

    def __init__(self, model: nn.Module, loss_function: LossFunction) -> None:
        super().__init__()
        self.model = model
        self._loss_function = (loss_function,)  # a module in it would become a submodule

    def forward(self, *batch: Any, **options: Any) -> tuple[Tensor, Any]:
        """Returns the loss and the whole result."""
        result = self._loss_function[0](self.model, *batch, **options)
        loss = result[0] if isinstance(result, tuple | list) and result else result
        if not isinstance(loss, Tensor):
            problem = f"returned a {type(loss).__name__}"
            raise InvalidFieldError.at("loss_function", problem, "return the loss, or a tuple that begins with it")
        return loss, result

    def computed(
        self,
        parameters: Sequence[Tensor],
        buffers: Sequence[Tensor],
        batch: "Batch",
        gradient: Tensor | None,
        *,
        is_backward: bool,
        note: "Note | None" = None,
    ) -> "Values":
        """Computes a step with these tensors instead of the model's own; `note` is that of `watched`.

        The backward pass uses them, too, because a checkpoint calls the model again.
        """
        with self._holding(parameters, buffers) as now:
            with nullcontext() if note is None else self.watched(note):
                loss, result = self(*batch.args, **batch.options)
            wanted = [is_backward and each.requires_grad for each in parameters]
            made = iter(gradients_of(loss, compress(parameters, wanted), gradient) if is_backward else ())
            return Values(loss, result, [next(made) if each else None for each in wanted], now())

    @contextmanager
    def _holding(self, parameters: Sequence[Tensor], buffers: Sequence[Tensor]) -> Iterator[Callable[[], list[Tensor]]]:
        """Replaces the modules' tensors within the block; yields a function that returns the current buffers.

        A tensor with several owners or names stays one tensor.
        """
        kinds = [(each._parameters, each._buffers) for each in self.modules()]  # noqa: SLF001 - as torch.func has it
        own = [*self.parameters(), *self.buffers()]
        others = {id(one): other for one, other in zip(own, [*parameters, *buffers], strict=True)}
        places = [
            (held, name, each) for kind in kinds for held in kind for name, each in held.items() if each is not None
        ]
        first = {id(each): (held, name) for held, name, each in reversed(places)}
        for held, name, each in places:
            held[name] = others[id(each)]

        def now() -> list[Tensor]:
            # An assigned buffer is another tensor now.
            return [held[name] for held, name in (first[id(each)] for each in own[len(parameters) :])]

        try:
            yield now
        finally:
            for held, name, each in places:
                held[name] = each

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Restores the modules' attributes after the block, within which tensors may have no values."""
        before = [(each, dict(vars(each))) for each in self.modules()]
        try:
            yield
        finally:
            for module, attributes in before:
                vars(module).clear()
                vars(module).update(attributes)

    @contextmanager
    def watched(self, note: "Note") -> Iterator[None]:
        """Within the block, calls `note` with the path and the tensors of each module that has run."""

        def hook(path: str, _module: nn.Module, _args: Any, output: Any) -> None:
            note(
                path, [each for each in pytree.tree_leaves(output) if isinstance(each, Tensor) and not _is_within(each)]
            )

        name = type(self.model).__name__
        handles = [
            module.register_forward_hook(partial(hook, f"{name}.{path}" if path else name))
            for path, module in self.model.named_modules()
        ]
        try:
            yield
        finally:
            for each in handles:
                each.remove()

    @property
    def parameter_names(self) -> list[str]:
        return [name for name, _ in self.named_parameters()]

    @property
    def buffer_names(self) -> list[str]:
        return [name for name, _ in self.named_buffers()]


@dataclass(frozen=True, slots=True)
class Batch:
    """The arguments of a step."""

    args: tuple[Any, ...]
    options: Mapping[str, Any]

    @property
    def tensors(self) -> list[Tensor]:
        return [each for each in pytree.tree_leaves((self.args, self.options)) if isinstance(each, Tensor)]

    def replaced(self, tensors: Sequence[Tensor]) -> "Batch":
        """Returns the same arguments with other tensors."""
        left = iter(tensors)
        args, options = pytree.tree_map_only(Tensor, lambda _: next(left), (self.args, dict(self.options)))
        return Batch(args, options)


@dataclass(frozen=True, slots=True)
class Values:
    """The results of a call of the model."""

    loss: Tensor
    result: Any
    gradients: list[Tensor | None]
    """Gradients by parameter; None if nothing depends on it, or it requires none."""
    buffers: list[Tensor]


def gradients_of(loss: Tensor, parameters: Iterable[Tensor], gradient: Tensor | None = None) -> Sequence[Tensor | None]:
    """Returns the gradients of the parameters; raises InvalidFieldError if the loss has none."""
    if not loss.requires_grad:
        problem = "depends on no parameter that requires a gradient"
        raise InvalidFieldError.at("loss", problem, "unfreeze one, or call the step within torch.no_grad()")
    if gradient is None and loss.numel() != 1:
        problem = f"has the shape {tuple(loss.shape)}"
        raise InvalidFieldError.at("loss", problem, "return a scalar, or give the step a gradient of this shape")
    if gradient is not None and gradient.shape != loss.shape:
        problem = f"has the shape {tuple(gradient.shape)}, and the loss {tuple(loss.shape)}"
        raise InvalidFieldError.at("gradient", problem, "give one of the shape of the loss")
    _check_checkpoints(loss)
    seed = torch.ones_like(loss) if gradient is None else gradient
    # Autocast is for forward passes; backward functions use the forward pass's data types.
    with torch.autocast("cpu", enabled=False):
        found: Sequence[Tensor | None] = torch.autograd.grad(loss, list(parameters), seed, allow_unused=True)
    if any(each is not None and each.layout is not torch.strided for each in found):
        raise InvalidFieldError.at("step", "has a sparse gradient", "leave sparse=True out")
    return found


def _check_checkpoints(loss: Tensor) -> None:
    """Raises InvalidFieldError for a reentrant checkpoint, which adds to `.grad` by its own backward pass."""
    left: list[Node | None] = [loss.grad_fn]
    seen: set[Node] = set()
    while left:
        node = left.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == "CheckpointFunctionBackward":
            raise InvalidFieldError.at("step", "has a reentrant checkpoint", "give checkpoint() use_reentrant=False")
        left += [each for each, _ in node.next_functions]


def _is_within(tensor: Tensor) -> bool:
    """Returns whether a tensor belongs to torch.func and must not be kept."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))  # noqa: SLF001 - torch.func has no other way
