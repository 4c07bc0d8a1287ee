"""Differentiation by several arguments: one call of a client has the gradients that JAX wants."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Any

import jax

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served import served_by
from aclgrad.errors import InvalidFieldError, InvalidSettingError
from aclgrad.jax._checks import check_named, checked_attributes, checked_named
from aclgrad.jax._gradients import varying_alike
from aclgrad.jax._remote import RemoteCall, argument_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec

Arrays = Mapping[str, jax.Array]
Forward = Callable[..., tuple[Any, dict[str, jax.Array]]]
"""Returns the outputs, of which the first is differentiable, and what else the operator takes, by name."""


def differentiable_by_several(
    client: Client,
    function: str,
    operator: str,
    forward: Forward,
    static: Mapping[str, Any],
    arguments: Mapping[str, Any],
    shapes: Callable[[tuple[int, ...]], Mapping[str, tuple[int, ...]]],
) -> tuple[jax.Array, ...]:
    """Returns the outputs of `forward(arrays, **static)`, where the first has the operator's gradients.

    `arguments` are the function's by name, None if absent; `shapes` returns those that they must have beside an input
    of the given shape. The gradients have no derivatives of their own.
    """
    if not isinstance(client, Client):
        problem, remedy = f"client is a {type(client).__name__}", "give an aclgrad.Client"
        raise InvalidSettingError(problem, field="client", remedy=remedy)
    spec = OPERATORS[operator]
    given = checked_named(spec, arguments, shapes)
    static = checked_attributes(spec, static, {})
    names, arrays = tuple(given), varying_alike(list(given.values()))
    forms = ((name, each.shape, each.dtype) for name, each in given.items())
    key = served_by(client), operator, forward, *static.items(), *forms
    functions = client.bridge_functions
    found = functions.get(key)
    if found is None:
        compiled = jax.jit(partial(forward, **static))
        types = {name: jax.ShapeDtypeStruct(each.shape, each.dtype) for name, each in given.items()}
        sent = _checked(client, spec, static, compiled, types)
        call = RemoteCall(client, spec, static, types, sent)
        found = functions.keep(key, _function(call, function, compiled, names, sent[1:]))
    outputs: tuple[jax.Array, ...] = found(*arrays)
    return outputs


def _checked(
    client: Client, spec: OperatorSpec, static: Mapping[str, Any], forward: Forward, types: Mapping[str, Any]
) -> tuple[str, ...]:
    """Returns the inputs that the operator gets; raises a RequestError for what the server does not differentiate."""
    outputs, saved = jax.eval_shape(forward, types)
    known = {**types, **saved}
    names = {each.name: each.python_name for each in spec.inputs[1:] if known.get(each.python_name) is not None}
    inputs = {spec.inputs[0].name: outputs[0], **{name: known[argument] for name, argument in names.items()}}
    if all(each.size for each in inputs.values()):  # what is empty is not sent
        attributes = {each.name: static[each.name] for each in spec.attributes if each.name in static}
        check_named(client, spec, inputs, attributes, {})
    return tuple(inputs)


def _function(
    call: RemoteCall, function: str, forward: Forward, names: tuple[str, ...], sent: tuple[str, ...]
) -> Callable[..., Any]:
    """Returns the function of the arrays of these names; `sent` are the inputs after the gradient of the output."""
    targets = [argument_of(each) for each in call.spec.outputs]
    taken = [each.python_name for each in call.spec.inputs if each.name in sent]

    def computed(*arrays: Any) -> Any:
        return forward(dict(zip(names, arrays, strict=True)))[0]

    def remember(*primals: Any) -> Any:
        arrays = {name: each.value for name, each in zip(names, primals, strict=True)}
        perturbed = {name for name, each in zip(names, primals, strict=True) if each.perturbed}
        outputs, saved = forward(arrays)
        known = {**arrays, **saved}
        # In the structure and not as values, which JAX would trace.
        wanted = tuple(() if each in perturbed else None for each in targets)
        return outputs, ([known[argument] for argument in taken], wanted)

    def pull(residuals: Any, cotangents: Any) -> tuple[Any, ...]:
        inputs, marks = residuals
        wanted = tuple(each is not None for each in marks)
        if not any(wanted) or isinstance(cotangents[0], jax.custom_derivatives.SymbolicZero):
            return (None,) * len(names)
        gradients = iter(remote[wanted](cotangents[0], *inputs))
        by_name = {name: next(gradients) for name, is_wanted in zip(targets, wanted, strict=True) if is_wanted}
        return tuple(by_name.get(name) for name in names)

    def remote_of(wanted: tuple[bool, ...]) -> Callable[..., Any]:
        def differentiate(*inputs: Any) -> Any:
            gradients = call(*inputs, wanted=wanted)
            return tuple(varying_alike([*gradients, *inputs])[: len(gradients)])

        def refuse(*_: Any) -> Any:
            problem = "has no second derivative on a server"
            raise InvalidFieldError.at(function, problem, "write it with jax.numpy where one is needed")

        remote = jax.custom_vjp(differentiate)
        remote.defvjp(lambda *inputs: (remote(*inputs), None), refuse)
        refusing: Callable[..., Any] = remote
        return refusing

    remote = {wanted: remote_of(wanted) for wanted in product([False, True], repeat=len(targets))}
    differentiating = jax.custom_vjp(computed)
    differentiating.defvjp(remember, pull, symbolic_zeros=True)
    differentiated: Callable[..., Any] = differentiating
    return differentiated
