"""The functions of each element by itself, and softmax."""

import math
from collections.abc import Callable
from typing import Any, Final

import jax
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.jax._checks import check_array
from aclgrad.jax._gradients import differentiable


def gelu(input: Array, approximate: str = "none", *, client: Client) -> Array:
    """Returns input * Phi(input), or the approximation "tanh" of it, as `torch.nn.functional.gelu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("gelu", input, client, approximate=approximate)


def hardswish(input: Array, *, client: Client) -> Array:
    """Returns input * relu6(input + 3) / 6, as `torch.nn.functional.hardswish`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("hardswish", input, client)


def leaky_relu(input: Array, negative_slope: float = 0.01, *, client: Client) -> Array:
    """Multiplies negative numbers by `negative_slope`, as `torch.nn.functional.leaky_relu`.

    Takes float32, float16, bfloat16, and float64 if the slope is a float32. The gradient has no derivative of its own.
    """
    return run("leaky_relu", input, client, negative_slope=negative_slope)


def relu(input: Array, *, client: Client) -> Array:
    """Returns max(input, 0), as `torch.nn.functional.relu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("relu", input, client)


def sigmoid(input: Array, *, client: Client) -> Array:
    """Returns 1 / (1 + exp(-input)), as `torch.sigmoid`.

    Takes float32, float16, bfloat16 and float64. The gradient has no derivative of its own.
    """
    return run("sigmoid", input, client)


def silu(input: Array, *, client: Client) -> Array:
    """Returns input * sigmoid(input), as `torch.nn.functional.silu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("silu", input, client)


def swiglu(x: Array, dim: int = -1, *, client: Client) -> Array:
    """Returns silu(a) * b of the halves a and b of `x` along `dim`, as `torch_npu.npu_swiglu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    check_array("x", x)
    shape = jnp.shape(x)
    if not -len(shape) <= dim < len(shape) or shape[dim] % 2:
        problem = f"is {dim}, and x has the shape {shape}"
        raise InvalidFieldError.at("dim", problem, "give an axis that has two equal halves")
    axis = dim % len(shape)
    # Of three axes, so that vmap can add its own.
    rows = x.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    halved: Array = differentiable("swiglu", client, _swiglu, {"x": rows}, {"dim": -2})
    return halved.reshape(*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


def _swiglu(x: Array, *, dim: int) -> Array:
    a, b = jnp.split(wide(x), 2, dim)
    return (jax.nn.silu(a) * b).astype(x.dtype)


def tanh(input: Array, *, client: Client) -> Array:
    """Returns the hyperbolic tangent, as `torch.tanh`.

    Takes float32, float16, bfloat16 and float64. The gradient has no derivative of its own.
    """
    return run("tanh", input, client)


def threshold(input: Array, threshold: float, value: float, *, client: Client) -> Array:
    """Puts `value` in the place of what is not above `threshold`, as `torch.nn.functional.threshold`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("threshold", input, client, threshold=threshold, value=float(value))


def _forward(function: Callable[..., Array]) -> Callable[..., Array]:
    def forward(input: Array, **static: Any) -> Array:
        return function(wide(input), **static).astype(input.dtype)

    return forward


_FORWARD: Final = {
    "gelu": _forward(lambda x, approximate: jax.nn.gelu(x, approximate=approximate == "tanh")),
    "hardswish": _forward(jax.nn.hard_swish),
    "leaky_relu": _forward(jax.nn.leaky_relu),
    "relu": _forward(jax.nn.relu),
    "log_softmax": _forward(lambda x, dim: jax.nn.log_softmax(x.reshape(x.shape or 1), dim).reshape(x.shape)),
    "sigmoid": _forward(jax.nn.sigmoid),
    "silu": _forward(jax.nn.silu),
    "softmax": _forward(lambda x, dim: jax.nn.softmax(x.reshape(x.shape or 1), dim).reshape(x.shape)),
    "tanh": _forward(jnp.tanh),
    "threshold": _forward(lambda x, threshold, value: jnp.where(x <= threshold, value, x)),
}


def wide(array: Array) -> Array:
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def run(name: str, input: Array, client: Client, **static: Any) -> Array:
    return differentiable(name, client, _FORWARD[name], {"input": input}, static)
