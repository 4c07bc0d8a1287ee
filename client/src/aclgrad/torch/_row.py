"""PyTorch's side of a row: the forward pass, its schema, its saved tensors, and its calls for vmap."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from aclgrad.bridges.folding import Mapped
from aclgrad.bridges.rows import ROWS, Known, Row


def cast(tensor: Tensor, dtype: Any) -> Tensor:
    return tensor.to(getattr(torch, dtype) if isinstance(dtype, str) else dtype)


def without_batch(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """Returns the function for tensors with an empty batch; inputs with a batch have `most` axes."""

    def call(input: Tensor, *rest: Any) -> Any:
        first = int(input.dim() == most)
        return function(
            *[each.new_empty((0, *each.shape[first:])) if isinstance(each, Tensor) else each for each in (input, *rest)]
        )

    return call


def mapped(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], in_dims: Sequence[int | None], most: int
) -> Mapped:
    """Returns a call of vmap for the folds of rows; `values` has its arguments in order."""
    dims = dict(zip(values, in_dims, strict=True))
    tensors = {name: each for name, each in values.items() if isinstance(each, Tensor)}
    common = {name: each for name, each in tensors.items() if dims[name] is None}
    whole = {
        name: each.expand(size, *each.shape) if name in common else each.movedim(dims[name] or 0, 0)
        for name, each in tensors.items()
    }
    return Mapped(function, size, {**values, **whole}, common, most, torch)


def _unset(*_: Any) -> None: ...


Joined = Callable[[Sequence[Any]], list[Tensor | None]]


class Derivative(NamedTuple):
    """The gradients of an operator's gradients, by calls of the operator: like `gradients_again` of convolutions."""

    gradients: Callable[[Known, Sequence[Tensor | None], Sequence[bool]], tuple[list[Known], Joined]]
    flops: Callable[[Known, Sequence[bool]], int]


@dataclass(frozen=True, slots=True)
class Operation:
    """PyTorch's computation of the row of this name: a forward pass of the `parameters`, and its kernel for fake
    tensors.

    `saved` names the tensors that PyTorch's function saves, in its order, so that a checkpoint can recompute without a
    block. `prepared` turns them into the operator's inputs. `cast_by` is the PyTorch function whose autocast rule
    applies; it takes the arguments of `forward` and computes next to nothing. By default it is `forward` of an empty
    batch. `other` is an argument without a gradient by the operator: PyTorch computes it, or if the function
    `is_symmetric`, it is the negative gradient of the input.

    The backward pass of a linear function's backward pass is the function itself: `sizes` returns its missing
    arguments, given the shape of the output's gradient. Otherwise `again` is that pass, of the gradient of the input,
    the indices and the client. A nonlinear function has a second derivative if `local` is PyTorch's gradient of it,
    which is differentiated, or if there is a `derivative` that calls the operator again. `flops` counts the operations
    of the needed gradients.
    """

    name: str
    parameters: str
    forward: Callable[..., Any]
    fake: Callable[..., Any] | None = None
    saved: Callable[[Known], tuple[str, ...]] = lambda arguments: ("input",)
    prepared: Callable[[Known], Known] | None = None
    sizes: Callable[[Sequence[int]], dict[str, Any]] = lambda _: {}
    again: Callable[..., Tensor] | None = None
    local: Callable[..., Any] | None = None
    derivative: Derivative | None = None
    flops: Callable[[Known, Tensor, Sequence[bool]], int] | None = None
    returns: str = "Tensor"
    cast_by: Callable[..., Any] = _unset
    other: str = ""
    is_symmetric: bool = False
    row: Row = field(init=False)
    names: tuple[str, ...] = field(init=False)
    """The arguments' names, without the client."""
    targets: tuple[int, ...] = field(init=False)
    """The places of the arguments whose gradients are the operator's outputs."""

    def __post_init__(self) -> None:
        row = ROWS[self.name]
        names = tuple(each.split()[-1] for each in self.parameters.split(", "))
        is_set = self.cast_by is not _unset
        cast_by = self.cast_by if is_set else without_batch(self.forward, max(row.ranks))
        derived = {"row": row, "names": names, "targets": tuple(map(names.index, row.targets)), "cast_by": cast_by}
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def sent_types(self, known: Known) -> dict[str, Any]:
        """Returns the operator's inputs and attributes, as tensors of the right types but any values."""
        if self.prepared is not None:
            known = {name: each.to("meta") if isinstance(each, Tensor) else each for name, each in known.items()}
            known = {**known, **self.prepared(known)}
        return self.row.sent(known, cast)
