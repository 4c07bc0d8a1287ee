"""Differentiation by a server: a custom_vjp whose backward pass is a call of a client."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served import served_by
from aclgrad.errors import InvalidSettingError
from aclgrad.jax._checks import Names, check, checked_arrays, checked_attributes
from aclgrad.jax._remote import RemoteCall
from aclgrad.operators.catalogue import OPERATORS

Forward = Callable[..., Any]


def differentiable(
    client: Client,
    operator: str,
    forward: Forward,
    static: Mapping[str, Any],
    *arguments: Any,
    choose: Forward | None = None,
    names: Names | None = None,
) -> Any:
    """Returns `forward(*arguments, **static)`; its gradient by the first argument is the operator's.

    `forward` is linear in the first argument. `choose` computes the other one from it, and is not differentiated; with
    it, the result is the output and that argument. The operator's attributes are among `static`; `names` are those of
    the parameters for them.

    JAX keeps what it compiles for a function as long as the function, so one that is called again with arguments like
    these is the same one. It ends with the client.
    """
    if not isinstance(client, Client):
        problem, remedy = f"client is a {type(client).__name__}", "give an aclgrad.Client"
        raise InvalidSettingError(problem, field="client", remedy=remedy)
    spec = OPERATORS[operator]
    arrays = varying_alike(checked_arrays(spec, *arguments))
    static = checked_attributes(spec, static, names or {})
    key = served_by(client), operator, forward, *static.items(), *((each.shape, each.dtype) for each in arrays)
    functions = client.bridge_functions
    found = functions.get(key)
    if found is None:
        call = RemoteCall(client, spec, static, {"input": jax.ShapeDtypeStruct(arrays[0].shape, arrays[0].dtype)})
        chosen_by = choose and _without_gradient(jax.jit(partial(choose, **static)))
        compiled = jax.jit(partial(forward, **static))
        _check(call, compiled, chosen_by, arrays, names or {})
        found = functions.keep(key, (_function(call, compiled), chosen_by))
    function, chosen_by = found
    if chosen_by is None:
        return function(*arrays)
    chosen = chosen_by(arrays[0])
    return function(arrays[0], chosen), chosen


def _check(
    call: RemoteCall, forward: Forward, choose: Forward | None, arrays: Sequence[jax.Array], names: Names
) -> None:
    """Raises a RequestError for what the server does not differentiate. An empty batch is not sent, so it is legal."""
    batched = max(call.spec.inputs[0].ranks)
    input, *others = (
        jax.ShapeDtypeStruct((each.shape[0] or 1, *each.shape[1:]) if each.ndim == batched else each.shape, each.dtype)
        for each in arrays
    )
    if choose is not None:
        others = [jax.eval_shape(choose, input)]
    output = jax.eval_shape(forward, input, *others)
    check(call.client, call.spec, call.inputs(output, input, others), call.attributes(input.shape), names)


def _function(call: RemoteCall, forward: Forward) -> Forward:
    """Returns `forward` with its gradient; both are linear, so each is the other's gradient.

    Their own forward passes call them and not what they are made of, so that second derivatives are remote as well.
    """

    def differentiate(grad_output: Any, input: Any, *others: Any) -> Any:
        inputs = call.inputs(grad_output, input, others)
        return varying_alike([*call(*inputs), *inputs])[0]

    def remember(input: Any, *others: Any) -> Any:
        return function(input, *others), (input if call.takes_input else None, *others)

    def pull(inputs: tuple[Any, ...], grad_output: Any) -> tuple[Any, ...]:
        return remote(grad_output, *inputs), *[None] * (len(inputs) - 1)

    def remember_again(grad_output: Any, input: Any, *others: Any) -> Any:
        return remote(grad_output, input, *others), others

    def pull_again(others: tuple[Any, ...], cotangent: Any) -> tuple[Any, ...]:
        return function(cotangent, *others), None, *[None] * len(others)

    function = jax.custom_vjp(forward)
    function.defvjp(remember, pull)
    remote = jax.custom_vjp(differentiate)
    remote.defvjp(remember_again, pull_again)
    differentiated: Forward = function
    return differentiated


def _without_gradient(choose: Forward) -> Forward:
    """Returns the same function; JAX would differentiate the other anew, and keep that, each time that it is called."""
    function = jax.custom_vjp(choose)
    function.defvjp(lambda input: (choose(input), None), lambda *_: (None,))
    chooser: Forward = function
    return chooser


def varying_alike(arrays: Sequence[Any]) -> list[Any]:
    """Returns the arrays varying along the same axes of shard_map: its checks want that, and sum up what is shared."""
    own = [_varying_axes(each) for each in arrays]
    every: frozenset[Any] = frozenset().union(*own)
    return [
        jax.lax.pcast(each, tuple(every - axes), to="varying") if every - axes else each
        for each, axes in zip(arrays, own, strict=True)
    ]


def _varying_axes(array: Any) -> frozenset[Any]:
    """Returns none before JAX 0.8, whose shard_map needs `check_rep=False` or `check_vma=False`."""
    if not hasattr(jax.lax, "pcast"):
        return frozenset()
    type = jax.typeof(array)
    axes: frozenset[Any] = type.manual_axis_type.varying if hasattr(type, "manual_axis_type") else type.vma
    return axes
