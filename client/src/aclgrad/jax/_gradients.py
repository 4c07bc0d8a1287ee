"""Differentiation by a server: a custom_vjp whose backward pass is a call of a client."""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import jax
import numpy as np

from aclgrad._client.max_pool2d import served_operator
from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidSettingError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import InputSpec

Forward = Callable[..., tuple[Any, tuple[Any, ...]]]


def differentiable(
    client: Client,
    operator: str,
    forward: Forward,
    static: tuple[Hashable, ...],
    attributes: Mapping[str, Any],
    *arguments: Any,
) -> Any:
    """Returns the output of `forward`, differentiable with respect to its first argument.

    `forward` takes `static` and the arguments, and returns the output and what the operator takes after the gradient of
    the output. JAX keeps what it compiles for a function as long as the function, so one that is called again with
    arguments like these is the same one. It ends with the client.
    """
    if not isinstance(client, Client):
        problem, remedy = f"client is a {type(client).__name__}", "give an aclgrad.Client"
        raise InvalidSettingError(problem, field="client", remedy=remedy)
    input = arguments[0]
    key = operator, forward, static, tuple(attributes.items()), tuple(input.shape), input.dtype, len(arguments)
    functions = client.bridge_functions
    function = functions.get(key)
    if function is None:
        result = jax.ShapeDtypeStruct(input.shape, input.dtype)
        function = _function(client, operator, forward, static, attributes, result, len(arguments))
        # The first of several threads wins.
        function = functions.setdefault(key, function)
    return function(*arguments)


def _function(
    client: Client,
    operator: str,
    forward: Forward,
    static: tuple[Hashable, ...],
    attributes: Mapping[str, Any],
    result: jax.ShapeDtypeStruct,
    count: int,
) -> Callable[..., Any]:
    inputs_of = OPERATORS[operator].inputs

    def call(*arrays: Any) -> Any:
        values = {each.name: _sent(each, np.asarray(array)) for each, array in zip(inputs_of, arrays, strict=True)}
        return client.execute(served_operator(operator, client), values, attributes)

    def remember(*values: Any) -> tuple[Any, tuple[Any, ...]]:
        return forward(*static, *values)

    def backward(inputs: tuple[Any, ...], grad_output: Any) -> tuple[Any, ...]:
        # vmap makes one call for each element: the operators have their own batch dimension.
        gradient = jax.pure_callback(call, result, grad_output, *inputs, vmap_method="sequential")
        return gradient, *[None] * (count - 1)

    function = jax.custom_vjp(lambda *values: remember(*values)[0])
    function.defvjp(remember, backward)
    differentiated: Callable[..., Any] = function
    return differentiated


def _sent(spec: InputSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns indices as int64 if the operator needs int64: by default JAX makes int32."""
    takes = {dtype for dtypes in spec.dtypes.values() for dtype in dtypes}
    return array if array.dtype != np.int32 or "int32" in takes else array.astype(np.int64)
