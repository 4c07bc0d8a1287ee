"""What a row tells of a function: its forward pass, the operator of its gradients, and what that one takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec
from aclgrad.torch._folding import Fold, fold_into_batch

Known = Mapping[str, Any]


def _nothing(arguments: Known, output: Any) -> dict[str, Any]:
    return {}


def _input(arguments: Known) -> tuple[str, ...]:
    return ("input",)


def _known(
    names: tuple[str, ...], defaults: Known, more: Callable[[Known, Any], dict[str, Any]]
) -> Callable[[Sequence[Any], Any], dict[str, Any]]:
    # Without the row: torch.compile cannot trace a function that holds one.
    def known(values: Sequence[Any], output: Any) -> dict[str, Any]:
        arguments = dict(zip(names, values, strict=False))
        return {**defaults, **arguments, **more(arguments, output)}

    return known


def without_batch(function: Callable[..., Any], most: int) -> Callable[..., Any]:
    """Returns the function of tensors that have an empty batch; inputs with a batch have `most` axes."""

    def call(input: Tensor, *rest: Any) -> Any:
        first = int(input.dim() == most)
        return function(
            *[each.new_empty((0, *each.shape[first:])) if isinstance(each, Tensor) else each for each in (input, *rest)]
        )

    return call


@dataclass(frozen=True, slots=True)
class Operation:
    """A differentiable function of the arguments that the operator's outputs are gradients of.

    The operator's inputs and attributes are taken by name from the arguments, and from the result of `more`, which
    derives values from arguments and output. The others have their defaults. `saved` names the tensors that PyTorch's
    own function saves, in its order: where a checkpoint computes it again without a block, it finds the same ones.
    `sent` returns what becomes of them for the operator, and `fold` makes one call of many for vmap. `cast_by` is
    PyTorch's function that autocast may cast arguments for; it takes those of `forward`, and computes next to nothing.
    By default it is `forward` of an empty batch.
    A linear function is the backward pass of its own backward pass: `sizes` returns what its arguments lack among the
    operator's, given the shape of the gradient of the output. For another one `again` is that pass, of the gradient of
    the input, the indices and the client. One that is not linear either (`is_linear`) has a second
    derivative if `local` is PyTorch's own gradient of it, which is differentiated for that. `function` is the name that
    a user calls.
    """

    name: str
    operator: str
    parameters: str
    forward: Callable[..., Any]
    fake: Callable[..., Any] | None = None
    more: Callable[[Known, Any], dict[str, Any]] = _nothing
    saved: Callable[[Known], tuple[str, ...]] = _input
    sizes: Callable[[Sequence[int]], dict[str, Any]] = lambda _: {}
    again: Callable[..., Tensor] | None = None
    is_linear: bool = True
    local: Callable[..., Tensor] | None = None
    sent: Callable[[dict[str, Any]], dict[str, Any]] = lambda known: known
    fold: Fold = fold_into_batch
    returns: str = "Tensor"
    function: str = ""
    cast_by: Callable[..., Any] = _nothing
    spec: OperatorSpec = field(init=False)
    names: tuple[str, ...] = field(init=False)
    """The arguments' names, without the client."""
    targets: tuple[int, ...] = field(init=False)
    """The places of the arguments that the operator's outputs are gradients of."""
    known: Callable[[Sequence[Any], Any], dict[str, Any]] = field(init=False)
    """Returns arguments, derived values and defaults by name, from the values of a call and its output."""

    def __post_init__(self) -> None:
        names = tuple(each.split()[-1] for each in self.parameters.split(", "))
        spec = OPERATORS[self.operator]
        object.__setattr__(self, "function", self.function or self.name)
        object.__setattr__(self, "spec", spec)
        if self.cast_by is _nothing:
            object.__setattr__(self, "cast_by", without_batch(self.forward, max(spec.inputs[0].ranks)))
        object.__setattr__(self, "names", names)
        of = ("input" if each.of == "self" else each.of for each in spec.outputs)
        object.__setattr__(self, "targets", tuple(map(names.index, of)))
        object.__setattr__(self, "known", _known(names, spec.defaults, self.more))
