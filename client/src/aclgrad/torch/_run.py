"""Runs one function with a gradient from a server, or says why there would be none."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from types import NoneType
from typing import Any, Final, TypeVar, cast

import torch
from torch import Tensor
from torch.autograd import forward_ad

from aclgrad._client.sync.client import Client
from aclgrad.bridges.rows import ROWS
from aclgrad.bridges.served_operators import REFUSALS
from aclgrad.errors import InvalidFieldError
from aclgrad.torch._account import LocalError
from aclgrad.torch._autograd import FUNCTIONS
from aclgrad.torch._operations import check_served
from aclgrad.torch._rows import OPERATIONS
from aclgrad.torch._tensors import dtype_name, number_of

Function = TypeVar("Function", bound=Callable[..., Any])
Size = int | Sequence[int]
_TENSORS: Final = {Tensor: (Tensor,), Tensor | None: (Tensor, NoneType)}
"""The values that a parameter with this annotation takes."""


def public(function: Function) -> Function:
    """Returns the public function: a call that would stay local in a block is an error here."""
    kinds = ((name, _TENSORS.get(each.annotation)) for name, each in signature(function).parameters.items())
    tensors = [(index, name, kind) for index, (name, kind) in enumerate(kinds) if kind is not None]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        for index, name, kind in tensors:
            given = args[index : index + 1] or [options[name] for _ in range(name in options)]
            if not all(isinstance(each, kind) for each in given):
                raise InvalidFieldError.at(name, f"is a {type(given[0]).__name__}", "give a torch.Tensor")
        try:
            return function(*args, **options)
        except LocalError as reason:
            problem = f"has a gradient that no operator computes: {reason}"
            raise InvalidFieldError.at(function.__name__, problem, "call PyTorch's own function") from None

    return cast(Function, call)


def in_order(parameters: str, function: Function) -> Function:
    """Returns the function with its parameters in another order, ignoring parameters that it does not have."""
    order, own = parameters.split(), signature(function)
    inputs = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in order]

    def call(*args: Any, client: Client | None, **options: Any) -> Any:
        given = {**dict(zip(order, args, strict=False)), **options}
        if others := given.keys() - set(order):
            raise LocalError(f"PyTorch alone takes {', '.join(sorted(others))}")
        return function(**{name: each for name, each in given.items() if name in own.parameters}, client=client)

    # Its parameters name the arguments in reports of a call.
    call.__signature__ = Signature([*inputs, own.parameters["client"]])  # type: ignore[attr-defined]
    return cast(Function, call)


def run(name: str, client: Client | None, input: Tensor, *rest: Any) -> Any:
    """Returns the result of a row with a gradient from the client's server; raises LocalError if it would have none.

    A client of None stands for a block that is not open in this thread.
    """
    return applied(FUNCTIONS[name], client, *_values(name, input, *rest))


def check(name: str, client: Client | None, input: Tensor, *rest: Any) -> None:
    """Raises LocalError like `run` for values of these types and an output of the input's, but computes nothing."""
    values = _values(name, input, *rest)
    number = _number(client)
    if torch.compiler.is_compiling():
        return
    types = [each.to("meta") if isinstance(each, Tensor) else each for each in values]
    try:
        check_served(OPERATIONS[name], (*types, number), types[0])
    except REFUSALS as refused:
        raise LocalError(str(refused)) from None


def _values(name: str, input: Tensor, *rest: Any) -> Sequence[Any]:
    """Returns the arguments of a row as autocast casts them."""
    if name not in ROWS:
        raise LocalError(f"there is no operator for {name}")
    row = ROWS[name]
    if input.dim() not in row.ranks:
        ranks = " or ".join(map(str, row.ranks))
        raise LocalError(f"the input has {input.dim()} dims, and the operator takes {ranks}")
    input, *others = of_autocast(OPERATIONS[name].cast_by, input, *rest)
    if not any(dtype_name(input) in dtypes for dtypes in row.spec.leading_input.dtypes.values()):
        raise LocalError(f"no product takes {dtype_name(input)}")
    return [input, *others]


def _number(client: Client | None) -> int:
    """Returns the client's number; raises LocalError if no function has a gradient from a server here."""
    if client is None:
        raise LocalError("a thread that begins in the block has to enter it itself")
    number = number_of(client)
    if not torch.compiler.is_compiling():
        check_reverse()
    return number


def check_reverse() -> None:
    """Raises LocalError within traces and forward-mode derivatives, for which operators have no gradients."""
    if torch.jit.is_tracing():
        raise LocalError("torch.jit.trace records PyTorch's own functions alone")
    # PyTorch has only this thread-wide check.
    if forward_ad._current_level >= 0:  # noqa: SLF001
        raise LocalError("forward-mode derivatives are not the operators'; use reverse mode (grad, vjp, jacrev)")


def applied(function: type[torch.autograd.Function], client: Client | None, *values: Any) -> Any:
    """Returns the result of a function whose last argument is a client's number; raises LocalError like `run`."""
    number = _number(client)
    if torch.compiler.is_compiling():
        return function.apply(*values, number)
    try:
        return function.apply(*values, number)
    except REFUSALS as refused:
        raise LocalError(str(refused)) from None


def per_axis(value: Size | None, count: int) -> list[int]:
    """Returns a size for each axis; none for None."""
    if value is None:
        return []
    # Not only an int: PyTorch takes numpy's integers too.
    sizes = list(value) if isinstance(value, Sequence) else [value]
    return sizes * count if len(sizes) == 1 else sizes


def of_autocast(function: Callable[..., Any], *values: Any, are_alike: bool = False) -> Sequence[Any]:
    """Returns the values as autocast would cast them for a PyTorch function.

    The dtype of the function's result shows it, so PyTorch's lists decide for every device and version. All values get
    that dtype if they `are_alike`.
    """
    device = values[0].device.type
    if not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)):
        return values
    try:
        result = function(*values)
    except RuntimeError as error:
        raise LocalError(f"PyTorch refuses them: {error}") from None
    dtype = (result[0] if isinstance(result, tuple) else result).dtype
    is_cast = dtype != values[0].dtype

    def cast(each: Any) -> Any:
        # Autocast does not cast float64, and functions without casts take wider parameters.
        if not isinstance(each, Tensor) or not each.is_floating_point() or torch.float64 in (each.dtype, dtype):
            return each
        return each.to(dtype) if are_alike or is_cast or torch.promote_types(each.dtype, dtype) == dtype else each

    return [cast(each) for each in values]


def check_dense(*values: Any) -> None:
    """Raises LocalError for sparse or nested tensors."""
    for each in values:
        if isinstance(each, Tensor) and (each.layout is not torch.strided or each.is_nested):
            raise LocalError(f"the operators take dense tensors, not {'nested' if each.is_nested else each.layout}")


def cast_alike(function: Callable[..., Tensor], *tensors: Any) -> Any:
    """Returns the tensors in autocast's dtype for the function; None stays None.

    Raises LocalError if PyTorch refuses them, or if they are not dense or not of one dtype.
    """

    def of_ones(*each: Any) -> Tensor:
        return function(*[one if one is None else one.new_empty((1,) * one.dim()) for one in each])

    check_dense(*tensors)
    alike = of_autocast(of_ones, *tensors, are_alike=True)
    if len({each.dtype for each in alike if each is not None}) > 1:
        raise LocalError("the operators take operands of one dtype")
    return alike
