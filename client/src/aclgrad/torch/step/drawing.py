"""Random numbers of a step: drawn here in each run like PyTorch's; a checkpoint's repetitions are drawn once."""

from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import _disable_current_modes

from aclgrad.torch.aten import ATTENTION

aten: Final = torch.ops.aten

_IN_PLACE: Final[Mapping[Any, Any]] = {
    aten.bernoulli.p: aten.bernoulli_.float,
    aten.bernoulli.Tensor: aten.bernoulli_.Tensor,
    aten.normal_functional.default: aten.normal_.default,
    **{
        getattr(getattr(aten, name), overload): getattr(getattr(aten, f"{name}_"), overload)
        for name, overloads in {
            "cauchy": ("default",),
            "exponential": ("default",),
            "geometric": ("default",),
            "log_normal": ("default",),
            "random": ("default", "from", "to"),
            "uniform": ("default",),
        }.items()
        for overload in overloads
    },
}
"""In-place fills by their functional forms: they draw in the order of the tensor's memory."""


def is_random(function: Any) -> bool:
    """Whether a function draws from PyTorch's generator. Fused attention on a CPU never does."""
    if function in ATTENTION:
        return False
    return isinstance(function, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in function.tags  # noqa: SLF001


def read_by(node: fx.Node) -> list[fx.Node]:
    """Returns the inputs whose values a node reads: of a tensor that it fills or draws for, it needs only the shape."""
    of_shape = node.target in _IN_PLACE or (
        is_random(node.target) and str(node.target.overloadpacket).endswith("_like")
    )
    return [each for each in node.all_input_nodes if not of_shape or each is not node.args[0]]


def drawn(node: fx.Node, values: Mapping[fx.Node, Any]) -> Tensor:
    """Draws the random numbers of a node, in PyTorch's order."""
    read = read_by(node)

    def value_of(each: fx.Node) -> Any:
        if each in read:
            return values[each]
        like = each.meta["val"]
        return torch.empty_strided(like.shape, like.stride(), dtype=like.dtype)

    args, options = fx.node.map_arg((node.args, node.kwargs), value_of)
    result: Tensor = _IN_PLACE.get(node.target, node.target)(*args, **options)
    return result


class Draws:
    """The random nodes of a trace, by the generator's state: a checkpoint draws the same numbers again.

    Nothing is drawn during a trace, so the generator is advanced for each function that would draw.
    """

    def __init__(self) -> None:
        self._made: dict[Any, Tensor] = {}

    def take(self, function: Any, args: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
        """Calls a random function, or returns its earlier result from the same state."""
        with _disable_current_modes():
            state = torch.get_rng_state().numpy().tobytes()
            torch.rand(())
        shape = tuple(args[0].shape) if args and isinstance(args[0], Tensor) else str(args)
        key = hash(state), function, shape
        before = self._made.get(key)
        if before is None:
            result = function(*args, **options)
            # A copy, because results are changed in place.
            self._made[key] = result.detach().clone()
            return result
        return args[0].copy_(before) if function._schema.is_mutable else before.clone()  # noqa: SLF001
