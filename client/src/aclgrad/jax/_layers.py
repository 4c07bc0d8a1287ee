"""Normalisations and rows of a table, with forward passes that also return the operators' inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.jax._activations import run, wide
from aclgrad.jax._checks import check_array, checked_sizes
from aclgrad.jax._gradients import differentiable

Sizes = tuple[int, ...]
Size = int | Sequence[int]


def softmax(input: Array, dim: int, *, client: Client) -> Array:
    """Divides the powers of e by their sum along `dim`, as `torch.nn.functional.softmax`.

    The gradient has no derivative of its own. Takes float32, float16 and bfloat16.
    """
    return _softmax("softmax", input, dim, client)


def log_softmax(input: Array, dim: int, *, client: Client) -> Array:
    """Returns the logarithm of softmax along `dim`, as `torch.nn.functional.log_softmax`. As `softmax`."""
    return _softmax("log_softmax", input, dim, client)


def _softmax(name: str, input: Array, dim: int, client: Client) -> Array:
    # From the last, so that vmap's axes in front change nothing.
    rank = max(np.ndim(input), 1)
    if isinstance(dim, bool) or not isinstance(dim, int) or not -rank <= dim < rank:
        problem = f"is {dim!r} for an input of {np.shape(input)}"
        raise InvalidFieldError.at("dim", problem, f"give -{rank} to {rank - 1}")
    return run(name, input, client, dim=dim if dim < 0 else dim - rank)


def embedding(
    input: Array, weight: Array, padding_idx: int | None = None, scale_grad_by_freq: bool = False, *, client: Client
) -> Array:
    """Returns the rows of `weight` (rows, columns) at the indices `input`, as `torch.nn.functional.embedding`.

    The gradient of `weight` has no derivative of its own. Takes float32, float16 and bfloat16, and int32 or int64
    indices. JAX moves indices that are no rows to the nearest; the server refuses them in the backward pass.
    """
    check_array("weight", weight)
    rows = np.shape(weight)[0] if np.ndim(weight) == 2 else 0
    if not rows:
        raise InvalidFieldError.at("weight.shape", f"is {np.shape(weight)}", "give (rows, columns)")
    if padding_idx is not None and (not isinstance(padding_idx, int) or not -rows <= padding_idx < rows):
        raise InvalidFieldError.at("padding_idx", f"is {padding_idx!r}", f"give -{rows} to {rows - 1}")
    padding = -1 if padding_idx is None else padding_idx % rows
    indices = jnp.asarray(input)
    arrays = {"input": weight, "indices": indices.reshape(-1)}
    rule = {"padding_idx": padding, "scale_grad_by_freq": scale_grad_by_freq}
    found: Array = differentiable("embedding", client, _embedding, arrays, rule)
    return found.reshape(*indices.shape, np.shape(weight)[1])


def _embedding(input: Array, indices: Array, **_: Any) -> Array:
    return input[indices]


def layer_norm(
    input: Array,
    normalized_shape: Size,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    client: Client,
) -> Array:
    """Normalises the last axes, of the sizes `normalized_shape`, as `torch.nn.functional.layer_norm`.

    One call has the gradients of `input`, `weight` and `bias`; they have no derivatives of their own. Takes float32,
    float16 and bfloat16, and parameters of float32 or the input's dtype.
    """
    sizes = _last_sizes(input, normalized_shape)
    _check_eps(eps)
    arrays = {"input": input, "weight": weight, "bias": bias}
    static, shapes = {"normalized_shape": sizes, "eps": float(eps)}, {"weight": sizes, "bias": sizes}
    # No gradient depends on the bias.
    return differentiable("layer_norm", client, _layer_norm, arrays, static, shapes, unsent=["bias"])[0]


def _layer_norm(input: Array, *, normalized_shape: Sizes, eps: float, **affine: Array) -> tuple[Array, ...]:
    x, axes = wide(input), tuple(range(input.ndim - len(normalized_shape), input.ndim))
    mean = x.mean(axes, keepdims=True)
    rstd = jax.lax.rsqrt(x.var(axes, keepdims=True) + eps)
    return _scaled((x - mean) * rstd, affine).astype(input.dtype), mean, rstd


def rms_norm(
    input: Array, normalized_shape: Size, weight: Array | None = None, eps: float | None = None, *, client: Client
) -> Array:
    """Divides the last axes, of the sizes `normalized_shape`, by their root mean square, as PyTorch's function.

    One call has the gradients of `input` and `weight`; they have no derivatives of their own. Takes float32, float16
    and bfloat16, and a weight of float32 or the input's dtype.
    """
    sizes = _last_sizes(input, normalized_shape)
    if eps is not None:
        _check_eps(eps)
    arrays = {"input": input, "gamma": jnp.ones(sizes, input.dtype) if weight is None else weight}
    static = {"eps": float(np.finfo(np.float32).eps if eps is None else eps)}
    return differentiable("rms_norm", client, _rms_norm, arrays, static, {"gamma": sizes})[0]


def _rms_norm(input: Array, gamma: Array, *, eps: float) -> tuple[Array, Array]:
    x, axes = wide(input), tuple(range(input.ndim - gamma.ndim, input.ndim))
    rstd = jax.lax.rsqrt(jnp.square(x).mean(axes, keepdims=True) + eps)
    return (x * rstd * gamma).astype(input.dtype), rstd


def group_norm(
    input: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    *,
    client: Client,
) -> Array:
    """Normalises each of the groups of channels of (N, C, ...), as `torch.nn.functional.group_norm`.

    One call has the gradients of `input`, `weight` and `bias`; they have no derivatives of their own. Takes float32,
    float16 and bfloat16, and parameters of float32 or the input's dtype.
    """
    _check_eps(eps)
    check_array("input", input)
    shape = np.shape(input)
    if not isinstance(num_groups, int) or num_groups < 1 or len(shape) < 2 or shape[1] % num_groups:
        raise InvalidFieldError.at("num_groups", f"is {num_groups!r} for {shape}", "give a divisor of the channels")
    arrays, static = {"input": input, "gamma": weight, "bias": bias}, {"num_groups": num_groups, "eps": float(eps)}
    shapes = dict.fromkeys(("gamma", "bias"), shape[1:2])
    return differentiable("group_norm", client, _group_norm, arrays, static, shapes)[0]


def _group_norm(input: Array, *, num_groups: int, eps: float, **affine: Array) -> tuple[Array, ...]:
    groups = wide(input).reshape(input.shape[0], num_groups, -1 if input.size else 0)
    mean, rstd = groups.mean(2), jax.lax.rsqrt(groups.var(2) + eps)
    output = ((groups - mean[..., None]) * rstd[..., None]).reshape(input.shape)
    return _scaled(output, affine, of_channels=True).astype(input.dtype), mean, rstd


def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    *,
    client: Client,
) -> tuple[Array, Array | None, Array | None]:
    """Normalises each channel of (N, C, ...), as `torch.nn.functional.batch_norm`, and returns the running statistics.

    With `training` by the statistics of the batch: the returned ones are the new running ones, or None if none were
    given. Without it by the running ones, which are returned as they are. One call has the gradients of `input`,
    `weight` and `bias`; they have no derivatives of their own, and statistics have no gradient. Takes float32, float16
    and bfloat16, and the others in float32 or the input's dtype.
    """
    _check_eps(eps)
    check_array("input", input)
    shape = np.shape(input)
    if not isinstance(training, bool):
        raise InvalidFieldError.at("training", f"is {training!r}", "give a bool")
    if (running_mean is None) != (running_var is None) or (running_mean is None and not training):
        name = "running_mean" if running_mean is None else "running_var"
        raise InvalidFieldError.at(name, "is None", "give both running statistics, or neither with training")
    if training and len(shape) > 1 and int(np.prod(shape)) == shape[1]:
        raise InvalidFieldError.at("input.shape", f"is {shape}, one value per channel", "give more values to train on")
    running = {"running_mean": running_mean, "running_var": running_var}
    stopped = {name: each if each is None else jax.lax.stop_gradient(each) for name, each in running.items()}
    arrays = {"input": input, "weight": weight, "bias": bias, **stopped}
    static = {"training": training, "momentum": float(momentum), "eps": float(eps)}
    shapes = dict.fromkeys(("weight", "bias", *running), shape[1:2])
    output, _, _, *found = differentiable("batch_norm", client, _batch_norm, arrays, static, shapes)
    mean, var = (each if each is None else jax.lax.stop_gradient(each) for each in found)
    return output, mean, var


def _batch_norm(
    input: Array, *, training: bool, momentum: float, eps: float, **others: Array
) -> tuple[Array | None, ...]:
    """Returns the output, the used mean and 1 / deviation, and the new running statistics."""
    x, axes, columns = wide(input), (0, *range(2, input.ndim)), (-1, *[1] * (input.ndim - 2))
    running = [others.pop(name, None) for name in ("running_mean", "running_var")]
    mean, var = (x.mean(axes), x.var(axes)) if training else running
    count = input.size // max(input.shape[1], 1)
    if training and count:
        seen = mean, var * (count / max(count - 1, 1))
        running = [
            each if each is None else ((1 - momentum) * each + momentum * new).astype(each.dtype)
            for each, new in zip(running, seen, strict=True)
        ]
    invstd = jax.lax.rsqrt(wide(var) + eps)
    output = (x - mean.reshape(columns)) * invstd.reshape(columns)
    return _scaled(output, others, of_channels=True).astype(input.dtype), mean, invstd, *running


def _scaled(output: Array, affine: Mapping[str, Array], *, of_channels: bool = False) -> Array:
    """Returns the output times the weight plus the bias, if there are any."""
    for name in ("weight", "gamma", "bias"):
        if (each := affine.get(name)) is not None:
            columns = each.reshape(-1, *[1] * (output.ndim - 2)) if of_channels else each
            output = output + columns if name == "bias" else output * columns
    return output


def _last_sizes(input: Array, normalized_shape: Size) -> tuple[int, ...]:
    check_array("input", input)
    count = len(normalized_shape) if isinstance(normalized_shape, Sequence | np.ndarray) else 1
    sizes = checked_sizes("normalized_shape", normalized_shape, count)
    if not sizes or None in sizes or sizes != np.shape(input)[-len(sizes) :]:
        problem, remedy = f"is {sizes} for an input of {np.shape(input)}", "give its last sizes"
        raise InvalidFieldError.at("normalized_shape", problem, remedy)
    return sizes


def _check_eps(eps: Any) -> None:
    if not isinstance(eps, float | int) or not 0 < eps < np.inf:
        raise InvalidFieldError.at("eps", f"is {eps!r}", "give a number above 0")
