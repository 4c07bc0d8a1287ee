"""The functions of each element by itself."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.jax._several import Forward, differentiable_by_several


def hardswish(input: Array, *, client: Client) -> Array:
    """Returns input * relu6(input + 3) / 6, as `torch.nn.functional.hardswish`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _run("hardswish", input, client)


def leaky_relu(input: Array, negative_slope: float = 0.01, *, client: Client) -> Array:
    """Multiplies negative numbers by `negative_slope`, as `torch.nn.functional.leaky_relu`.

    Takes float32, float16, bfloat16, and float64 if the slope is a float32. The gradient has no derivative of its own.
    """
    return _run("leaky_relu", input, client, negative_slope=negative_slope)


def sigmoid(input: Array, *, client: Client) -> Array:
    """Returns 1 / (1 + exp(-input)), as `torch.sigmoid`.

    Takes float32, float16, bfloat16 and float64. The gradient has no derivative of its own.
    """
    return _run("sigmoid", input, client)


def silu(input: Array, *, client: Client) -> Array:
    """Returns input * sigmoid(input), as `torch.nn.functional.silu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _run("silu", input, client)


def tanh(input: Array, *, client: Client) -> Array:
    """Returns the hyperbolic tangent, as `torch.tanh`.

    Takes float32, float16, bfloat16 and float64. The gradient has no derivative of its own.
    """
    return _run("tanh", input, client)


def _forward(function: Callable[..., Array], saved: str | None = None) -> Forward:
    """Returns the forward pass of a function; `saved` is the operator's name of the output if it takes that."""

    def forward(arrays: Mapping[str, Array], **static: Any) -> Any:
        input = arrays["input"]
        wide = input.astype(jnp.promote_types(input.dtype, jnp.float32))
        output = function(wide, **static).astype(input.dtype)
        return (output,), {} if saved is None else {saved: output}

    return forward


_FORWARD: Final = {
    "hardswish": _forward(jax.nn.hard_swish),
    "leaky_relu": _forward(jax.nn.leaky_relu),
    "sigmoid": _forward(jax.nn.sigmoid, "output"),
    "silu": _forward(jax.nn.silu),
    "tanh": _forward(jnp.tanh, "output"),
}


def _run(name: str, input: Array, client: Client, operator: str = "", **static: Any) -> Array:
    given, forward = {"input": input}, _FORWARD[name]
    return differentiable_by_several(
        client, name, operator or f"{name}_backward", forward, static, given, lambda _: {}
    )[0]
