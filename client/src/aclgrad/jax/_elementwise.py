"""The functions of each element by itself."""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.jax._checks import check_array
from aclgrad.jax._several import Forward, differentiable_by_several


def gelu(input: Array, approximate: str = "none", *, client: Client) -> Array:
    """Returns input * Phi(input), or the approximation "tanh" of it, as `torch.nn.functional.gelu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _run("gelu", input, client, "gelu_backward_v2", approximate=approximate)


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


def relu(input: Array, *, client: Client) -> Array:
    """Returns max(input, 0), as `torch.nn.functional.relu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _run("relu", input, client, "threshold_backward", threshold=0.0)


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
    rows = {"x": x.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))}
    halved = differentiable_by_several(client, "swiglu", "swi_glu_grad", _swiglu, {"dim": -2}, rows, lambda _: {})[0]
    return halved.reshape(*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


def _swiglu(arrays: Mapping[str, Array], *, dim: int) -> Any:
    x = arrays["x"]
    a, b = jnp.split(x.astype(jnp.promote_types(x.dtype, jnp.float32)), 2, dim)
    return ((jax.nn.silu(a) * b).astype(x.dtype),), {}


def tanh(input: Array, *, client: Client) -> Array:
    """Returns the hyperbolic tangent, as `torch.tanh`.

    Takes float32, float16, bfloat16 and float64. The gradient has no derivative of its own.
    """
    return _run("tanh", input, client)


def threshold(input: Array, threshold: float, value: float, *, client: Client) -> Array:
    """Puts `value` in the place of what is not above `threshold`, as `torch.nn.functional.threshold`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _run("threshold", input, client, threshold=threshold, value=float(value))


def _forward(function: Callable[..., Array], saved: str | None = None) -> Forward:
    """Returns the forward pass of a function; `saved` is the operator's name of the output if it takes that."""

    def forward(arrays: Mapping[str, Array], **static: Any) -> Any:
        input = arrays["input"]
        wide = input.astype(jnp.promote_types(input.dtype, jnp.float32))
        output = function(wide, **static).astype(input.dtype)
        return (output,), {} if saved is None else {saved: output}

    return forward


_FORWARD: Final = {
    "gelu": _forward(lambda x, approximate: jax.nn.gelu(x, approximate=approximate == "tanh")),
    "hardswish": _forward(jax.nn.hard_swish),
    "leaky_relu": _forward(jax.nn.leaky_relu),
    "relu": _forward(lambda x, threshold: jax.nn.relu(x)),
    "sigmoid": _forward(jax.nn.sigmoid, "output"),
    "silu": _forward(jax.nn.silu),
    "tanh": _forward(jnp.tanh, "output"),
    "threshold": _forward(lambda x, threshold, value: jnp.where(x <= threshold, value, x)),
}


def _run(name: str, input: Array, client: Client, operator: str = "", **static: Any) -> Array:
    given, forward = {"input": input}, _FORWARD[name]
    return differentiable_by_several(
        client, name, operator or f"{name}_backward", forward, static, given, lambda _: {}
    )[0]
