"""What a call does, seen without its numbers: on tensors of PyTorch's meta device, which have no elements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from aclgrad.judge.dumps.apis import Api
from aclgrad.judge.dumps.recorded import Recorded, mapped, tensors_of


class Watch(TorchDispatchMode):
    """Counts floating-point operations of products, and notices random numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.is_random = False
        self.is_pointwise = True

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        result = function(*args, **options)
        count = flop_registry.get(function.overloadpacket)
        if count is not None:
            self.operations += count(*args, **options, out_val=result)
        self.is_pointwise &= torch.Tag.pointwise in function.tags or function.is_view
        self.is_random |= torch.Tag.nondeterministic_seeded in function.tags and not _has_no_dropout(
            function, args, options
        )
        return result


def _has_no_dropout(function: Any, args: Sequence[Any], options: dict[str, Any]) -> bool:
    """Says whether an operator that draws numbers for its dropout has none."""
    names = [each.name for each in function._schema.arguments]  # noqa: SLF001
    for name in ("dropout_p", "dropout", "training"):
        if name in names:
            number = names.index(name)
            return not (args[number] if number < len(args) else options.get(name, 0.0))
    return False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a call does."""

    outputs: tuple[tuple[torch.dtype, tuple[int, ...]], ...] | None
    """The types of its results; None if they follow from numbers."""
    operations: int = 0
    is_random: bool = False
    is_pointwise: bool = False
    returns_argument: bool = False
    """Whether the result is an argument as it is, so that nothing is computed."""
    problem: str = ""
    """Why PyTorch refuses the call, perhaps only without numbers."""


def watch(api: Api, call: Recorded, dtype: torch.dtype | None = None) -> Seen:
    """Returns what the call does in the dtypes of its arguments, or with those of floats in another one."""

    def without_numbers(tensor: Tensor) -> Tensor:
        own = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
        return torch.empty_like(tensor, device="meta", dtype=own, requires_grad=False)

    args, kwargs = (mapped(without_numbers, each) for each in (call.args, call.kwargs))
    if "device" in kwargs:
        kwargs["device"] = "meta"
    mode = Watch()
    try:
        with torch.no_grad(), torch.device("meta"), mode:
            result = api.function(*args, **kwargs)
    except Exception as error:  # PyTorch has many for arguments, and some operators need numbers
        return Seen(None, mode.operations, mode.is_random, problem=str(error))
    outputs = tensors_of(args[0] if result is None and args else result)
    is_argument = any(outputs[0] is each for each in tensors_of((args, kwargs))) if outputs else False
    types = tuple((each.dtype, tuple(each.shape)) for each in outputs)
    return Seen(types, mode.operations, mode.is_random, mode.is_pointwise, is_argument)
