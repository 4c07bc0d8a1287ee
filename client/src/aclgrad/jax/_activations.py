"""Element-wise functions, GLU and PReLU."""

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


def celu(input: Array, alpha: float = 1.0, *, client: Client) -> Array:
    """Returns input, or alpha * (exp(input / alpha) - 1) below 0, as `jax.nn.celu`. As `gelu`."""
    if not isinstance(alpha, float | int) or not alpha:
        raise InvalidFieldError.at("alpha", f"is {alpha!r}", "give a number that is not 0")
    return run("celu", input, client, alpha=float(alpha))


def elu(input: Array, alpha: float = 1.0, *, client: Client) -> Array:
    """Returns input, or alpha * (exp(input) - 1) below 0, as `jax.nn.elu`. As `gelu`."""
    return run("elu", input, client, alpha=alpha)


def gelu(input: Array, approximate: str = "none", *, client: Client) -> Array:
    """Returns input * Phi(input), or the approximation "tanh" of it, as `torch.nn.functional.gelu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("gelu", input, client, approximate=approximate)


def glu(input: Array, axis: int = -1, *, client: Client) -> Array:
    """Returns a * sigmoid(b) of the halves a and b of `input` along `axis`, as `jax.nn.glu`.

    Takes float32, float16, bfloat16 and float64. The gradient has no derivative of its own.
    """
    return _halved("glu", "input", input, "axis", axis, client)


def hard_sigmoid(input: Array, *, client: Client) -> Array:
    """Returns relu6(input + 3) / 6, as `jax.nn.hard_sigmoid`. As `gelu`."""
    return run("hardsigmoid", input, client)


def hard_tanh(input: Array, *, client: Client) -> Array:
    """Limits the input to -1 and 1, as `jax.nn.hard_tanh`. As `gelu`."""
    return run("hardtanh", input, client, min=-1.0, max=1.0)


def hardshrink(input: Array, lambd: float = 0.5, *, client: Client) -> Array:
    """Puts 0 in the place of numbers of at most this size, as `torch.nn.functional.hardshrink`. As `gelu`."""
    return run("hardshrink", input, client, lambd=lambd)


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


def log_sigmoid(input: Array, *, client: Client) -> Array:
    """Returns the logarithm of sigmoid, as `jax.nn.log_sigmoid`. As `gelu`."""
    return run("logsigmoid", input, client)


def mish(input: Array, *, client: Client) -> Array:
    """Returns input * tanh(softplus(input)), as `jax.nn.mish`. As `gelu`."""
    return run("mish", input, client)


def prelu(input: Array, weight: Array, *, client: Client) -> Array:
    """Multiplies negative numbers by the weight of their channel, or by the only one, as `torch.nn.functional.prelu`.

    Channels are the second axis. One call has the gradients of both; they have no derivatives of their own. Takes
    float32, float16 and bfloat16, and both in one dtype.
    """
    check_array("input", input)
    shape = jnp.shape(input)
    if jnp.size(weight) != 1 and jnp.shape(weight) != shape[1:2]:
        problem = f"is {jnp.shape(weight)} for an input of {shape}"
        raise InvalidFieldError.at("weight.shape", problem, "give one weight, or one for each of the channels")
    found: Array = differentiable("prelu", client, _prelu, {"input": input, "weight": weight}, {})
    return found


def _prelu(input: Array, weight: Array) -> Array:
    slopes = weight.reshape(-1, *[1] * max(input.ndim - 2, 0)) if weight.size > 1 else weight.reshape(())
    return jnp.where(input > 0, wide(input), wide(slopes) * wide(input)).astype(input.dtype)


def relu(input: Array, *, client: Client) -> Array:
    """Returns max(input, 0), as `torch.nn.functional.relu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return run("relu", input, client)


def relu6(input: Array, *, client: Client) -> Array:
    """Limits the input to 0 and 6, as `jax.nn.relu6`. As `gelu`."""
    return run("relu6", input, client)


def selu(input: Array, *, client: Client) -> Array:
    """Returns ELU with the numbers that keep mean and variance, as `jax.nn.selu`. As `gelu`."""
    return run("selu", input, client)


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


def softplus(input: Array, *, client: Client) -> Array:
    """Returns log(1 + exp(input)), as `jax.nn.softplus`. As `gelu`."""
    return run("softplus", input, client, beta=1.0, threshold=20.0)


def softshrink(input: Array, lambd: float = 0.5, *, client: Client) -> Array:
    """Moves numbers by `lambd` towards 0, as `torch.nn.functional.softshrink`. As `gelu`."""
    return run("softshrink", input, client, lambd=lambd)


def swiglu(x: Array, dim: int = -1, *, client: Client) -> Array:
    """Returns silu(a) * b of the halves a and b of `x` along `dim`, as `torch_npu.npu_swiglu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _halved("swiglu", "x", x, "dim", dim, client)


def _halved(name: str, argument: str, x: Array, axis_name: str, dim: int, client: Client) -> Array:
    """Returns the function of the halves of `x` along the axis."""
    check_array(argument, x)
    shape = jnp.shape(x)
    if not -len(shape) <= dim < len(shape) or shape[dim] % 2:
        problem = f"is {dim}, and {argument} has the shape {shape}"
        raise InvalidFieldError.at(axis_name, problem, "give an axis that has two equal halves")
    axis = dim % len(shape)
    # With three axes, so that vmap can add its own.
    rows = x.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    halved: Array = differentiable(name, client, _HALVES[name], {argument: rows}, {"dim": -2})
    return halved.reshape(*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


def _swiglu(x: Array, *, dim: int) -> Array:
    a, b = jnp.split(wide(x), 2, dim)
    return (jax.nn.silu(a) * b).astype(x.dtype)


def _glu(input: Array, *, dim: int) -> Array:
    return jax.nn.glu(wide(input), dim).astype(input.dtype)


_HALVES: Final = {"glu": _glu, "swiglu": _swiglu}


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
    "celu": _forward(jax.nn.celu),
    "elu": _forward(jax.nn.elu),
    "gelu": _forward(lambda x, approximate: jax.nn.gelu(x, approximate=approximate == "tanh")),
    "hardshrink": _forward(lambda x, lambd: jnp.where(jnp.abs(x) <= lambd, 0, x)),
    "hardsigmoid": _forward(jax.nn.hard_sigmoid),
    "hardtanh": _forward(lambda x, min, max: jnp.clip(x, min, max)),
    "hardswish": _forward(jax.nn.hard_swish),
    "leaky_relu": _forward(jax.nn.leaky_relu),
    "relu": _forward(jax.nn.relu),
    "log_softmax": _forward(lambda x, dim: jax.nn.log_softmax(x.reshape(x.shape or 1), dim).reshape(x.shape)),
    "logsigmoid": _forward(jax.nn.log_sigmoid),
    "mish": _forward(jax.nn.mish),
    "relu6": _forward(jax.nn.relu6),
    "selu": _forward(jax.nn.selu),
    "sigmoid": _forward(jax.nn.sigmoid),
    "silu": _forward(jax.nn.silu),
    "softmax": _forward(lambda x, dim: jax.nn.softmax(x.reshape(x.shape or 1), dim).reshape(x.shape)),
    "softplus": _forward(lambda x, beta, threshold: jax.nn.softplus(x)),
    "softshrink": _forward(lambda x, lambd: jnp.where(jnp.abs(x) <= lambd, 0, x - jnp.sign(x) * lambd)),
    "tanh": _forward(jnp.tanh),
    "threshold": _forward(lambda x, threshold, value: jnp.where(x <= threshold, value, x)),
}


def wide(array: Array) -> Array:
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def run(name: str, input: Array, client: Client, **static: Any) -> Array:
    return differentiable(name, client, _FORWARD[name], {"input": input}, static)
