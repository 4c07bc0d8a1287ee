"""Differentiation by a server: a custom_vjp whose backward pass is a call of a client."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from aclgrad._client.max_pool2d import served_operator
from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidSettingError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import InputSpec


def differentiable(
    client: Client,
    operator: str,
    forward: Callable[..., tuple[Any, tuple[Any, ...]]],
    attributes: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]],
    *arguments: Any,
) -> Any:
    """Returns the output of `forward`, differentiable with respect to its first argument.

    `forward` returns the output, and what the operator takes after the gradient of the output. `attributes` may depend
    on the output.
    """
    if not isinstance(client, Client):
        problem, remedy = f"client is a {type(client).__name__}", "give an aclgrad.Client"
        raise InvalidSettingError(problem, field="client", remedy=remedy)
    inputs_of = OPERATORS[operator].inputs
    input = arguments[0]
    result = jax.ShapeDtypeStruct(input.shape, input.dtype)

    def backward(inputs: tuple[Any, ...], grad_output: Any) -> tuple[Any, ...]:
        given = attributes(grad_output) if callable(attributes) else attributes

        def call(*arrays: Any) -> Any:
            values = {each.name: _sent(each, np.asarray(array)) for each, array in zip(inputs_of, arrays, strict=True)}
            return client.execute(served_operator(operator, client), values, given)

        # vmap makes one call for each element: the operators have their own batch dimension.
        gradient = jax.pure_callback(call, result, grad_output, *inputs, vmap_method="sequential")
        return gradient, *[None] * (len(arguments) - 1)

    function = jax.custom_vjp(lambda *values: forward(*values)[0])
    function.defvjp(forward, backward)
    return function(*arguments)


def _sent(spec: InputSpec, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns indices as int64 if the operator needs int64: by default JAX makes int32."""
    takes = {dtype for dtypes in spec.dtypes.values() for dtype in dtypes}
    return array if array.dtype != np.int32 or "int32" in takes else array.astype(np.int64)
