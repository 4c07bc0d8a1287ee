"""How PyTorch computes a row of the bridges: the forward pass, its schema, what it saves, and its calls of vmap."""

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
    """Returns the function of tensors that have an empty batch; inputs with a batch have `most` axes."""

    def call(input: Tensor, *rest: Any) -> Any:
        first = int(input.dim() == most)
        return function(
            *[each.new_empty((0, *each.shape[first:])) if isinstance(each, Tensor) else each for each in (input, *rest)]
        )

    return call


def mapped(
    function: Callable[..., Any], size: int, values: Mapping[str, Any], in_dims: Sequence[int | None], most: int
) -> Mapped:
    """Returns a call of vmap for the folds of rows; `values` has its arguments in their order."""
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
    """How an operator's gradients have gradients, by calls of the operator: as `gradients_again` of convolutions."""

    gradients: Callable[[Known, Sequence[Tensor | None], Sequence[bool]], tuple[list[Known], Joined]]
    flops: Callable[[Known, Sequence[bool]], int]


@dataclass(frozen=True, slots=True)
class Operation:
    """How PyTorch computes the row of this name: a forward pass of the `parameters`, and its kernel for fake tensors.

    `saved` names the tensors that PyTorch's own function saves, in its order: where a checkpoint computes it again
    without a block, it finds the same ones. `prepared` makes of them what the operator takes instead. `cast_by` is
    PyTorch's function that autocast may cast arguments for; it takes those of `forward`, and computes next to nothing.
    By default it is `forward` of an empty batch.
    `other` is an argument that the operator has no gradient of: PyTorch computes it, or if the function `is_symmetric`,
    it is the negative gradient of the input.
    The backward pass of a linear function's backward pass is the function: `sizes` returns what its arguments lack
    among the operator's, given the shape of the gradient of the output. If it is not, `again` is that pass, of the
    gradient of the input, the indices and the client. A function that is not linear has a second derivative if `local`
    is PyTorch's own gradient of it, which is differentiated for that, or if there is a `derivative` that calls the
    operator again. `flops` counts the operations of the gradients of the arguments that need them.
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
    """The places of the arguments that the operator's outputs are gradients of."""

    def __post_init__(self) -> None:
        row = ROWS[self.name]
        names = tuple(each.split()[-1] for each in self.parameters.split(", "))
        is_set = self.cast_by is not _unset
        cast_by = self.cast_by if is_set else without_batch(self.forward, max(row.ranks))
        derived = {"row": row, "names": names, "targets": tuple(map(names.index, row.targets)), "cast_by": cast_by}
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    def sent_types(self, known: Known) -> dict[str, Any]:
        """Returns what the operator takes of what is known, as tensors whose types alone are right."""
        if self.prepared is not None:
            known = {name: each.to("meta") if isinstance(each, Tensor) else each for name, each in known.items()}
            known = {**known, **self.prepared(known)}
        return self.row.sent(known, cast)
