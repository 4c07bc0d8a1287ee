"""Runs PyTorch while its operators become steps of a program."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from aclgrad._client.calls.handles import Handle
from aclgrad.judge.dumps.recorded import mapped, tensors_of
from aclgrad.tensors import TensorType
from aclgrad.torch.aten import OF_SHAPES, ROWS, VIEWS, Steps, Value
from aclgrad.torch.aten.steps import cast
from aclgrad.torch.calls import LocalError, array_of, dtype_name

_NO_OPERATOR: Final = "no operator computes this function: {}"


class _Follows(IntEnum):
    """The origins of a tensor: constants, given integers and truth values, or also given floats."""

    NOTHING = 0
    INTEGERS = 1
    NUMBERS = 2


class Translation(TorchDispatchMode):
    """Within the block, operators on values of the given tensors add steps, and PyTorch also computes them.

    Values that depend only on integers are exact, so steps take PyTorch's results: they may be positions, which outputs
    of steps may not be. Raises LocalError if an operator has no row.
    """

    def __init__(self, steps: Steps, given: Iterable[Tensor]) -> None:
        super().__init__()
        self._steps = steps
        self._kept: list[Tensor] = []
        """Kept, so that their ids are not reused."""
        self._follow: dict[int, _Follows] = {}
        self._made: dict[int, Handle | str] = {}
        """The handle of each result, or why there is none."""
        self._sharing: dict[int, set[int]] = {}
        """The tensors of each storage."""
        for each in given:
            is_number = each.is_floating_point() or each.is_complex()
            self._note(each, _Follows.NUMBERS if is_number else _Follows.INTEGERS)

    def made(self, result: Tensor) -> Handle | str | None:
        """Returns the handle of a result, or why no step gives it; None if no step has to."""
        made = self._made.get(id(result))
        if isinstance(made, Handle) and made.type.dtype.name != dtype_name(result):
            made = self._made[id(result)] = cast(self._steps, made, result.dtype)
        return made

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        options = dict(kwargs or {})
        tensors = tensors_of((args, options))
        follows = max((self._follow.get(id(each), _Follows.NOTHING) for each in tensors), default=_Follows.NOTHING)
        if function.overloadpacket in OF_SHAPES:
            follows = _Follows.NOTHING
        own = _out_of_place(function)
        if own is not function:
            self._check_alone(args[0], follows)
        # Before PyTorch, which may change an argument.
        made = self._added(own, args, options, follows)
        result = function(*args, **options)
        results = tensors_of(result)
        values = made if isinstance(made, tuple | list) else [made] * len(results)
        for number, each in enumerate(results):
            self._note(each, follows)
            self._made.pop(id(each), None)
            if made is not None:
                value = values[number] if number < len(values) else None
                self._made[id(each)] = value if isinstance(value, str) else _checked(value, each, function.name())
        return result

    def _added(self, function: Any, args: Any, options: Any, follows: _Follows) -> Any:
        """Adds steps, and returns the handles of the results; None for results that only PyTorch computes."""
        if follows is _Follows.NOTHING:
            return None
        if function.is_view or function in VIEWS:
            whole = self._made.get(id(args[0]))
            if function not in VIEWS and isinstance(whole, Handle):
                raise LocalError(_NO_OPERATOR.format(function.name()))
            return VIEWS[function](self._steps, whole, *args[1:], **options) if isinstance(whole, Handle) else whole
        if function in ROWS:
            return ROWS[function](self._steps, *mapped(self._value, args), **mapped(self._value, options))
        if follows is _Follows.NUMBERS:
            raise LocalError(_NO_OPERATOR.format(function.name()))
        return None

    def _value(self, tensor: Tensor) -> Value:
        follows = self._follow.get(id(tensor), _Follows.NOTHING)
        made = self._made.get(id(tensor)) if follows is _Follows.NUMBERS else None
        if isinstance(made, str):
            raise LocalError(made)
        return array_of(tensor) if made is None else made

    def _note(self, tensor: Tensor, follows: _Follows) -> None:
        if id(tensor) not in self._follow:
            self._kept.append(tensor)
        self._follow[id(tensor)] = follows
        self._sharing.setdefault(_memory_of(tensor), set()).add(id(tensor))

    def _check_alone(self, tensor: Tensor, follows: _Follows) -> None:
        """Raises LocalError if a change in place would change another tensor."""
        if follows is not _Follows.NOTHING and len(self._sharing.get(_memory_of(tensor), ())) > 1:
            raise LocalError("it changes a part of a tensor in place")


def _checked(value: Value, result: Tensor, name: str) -> Handle | str:
    """Returns the handle of this result, or why there is none. Positions may have a narrower type."""
    if not isinstance(value, Handle):
        return f"no operator gives this result of {name}"
    type = TensorType(value.type.dtype, tuple(result.shape))
    is_of_type = value.type.dtype.name == dtype_name(result) or (value.dtype == "int32" and result.dtype == torch.int64)
    if value.shape != type.shape or not is_of_type:
        return f"{name} is {value.type} by its operator, and {dtype_name(result)}{list(result.shape)} here"
    return value


def _out_of_place(function: Any) -> Any:
    """Returns the functional form of an in-place operator, or the operator itself."""
    name = function.overloadpacket.__name__
    if not function._schema.is_mutable or not name.endswith("_") or name.endswith("__"):  # noqa: SLF001
        return function
    packet = getattr(torch.ops.aten, name.removesuffix("_"), None)
    return getattr(packet, function._overloadname, function) if packet else function  # noqa: SLF001


def _memory_of(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]  # noqa: SLF001
