"""The functions with gradients of several arguments."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax import Array

from aclgrad._client.sync.client import Client
from aclgrad.errors import InvalidFieldError
from aclgrad.jax import _nonlinear
from aclgrad.jax._checks import check_array, checked_sizes
from aclgrad.jax._several import Forward, differentiable_by_several

_MODES = ("bilinear", "nearest")
_PADDINGS = ("zeros", "border", "reflection")


def softmax(input: Array, dim: int, *, client: Client) -> Array:
    """Divides the powers of e by their sum along `dim`, as `torch.nn.functional.softmax`.

    The gradient has no derivative of its own. Takes float32, float16 and bfloat16.
    """
    return _softmax("softmax", _nonlinear.softmax, input, dim, client)


def log_softmax(input: Array, dim: int, *, client: Client) -> Array:
    """Returns the logarithm of softmax along `dim`, as `torch.nn.functional.log_softmax`. As `softmax`."""
    return _softmax("log_softmax", _nonlinear.log_softmax, input, dim, client)


def _softmax(name: str, forward: Forward, input: Array, dim: int, client: Client) -> Array:
    # From the last, so that axes which vmap adds in front change nothing.
    rank = max(np.ndim(input), 1)
    if isinstance(dim, bool) or not isinstance(dim, int) or not -rank <= dim < rank:
        raise InvalidFieldError.at(
            "dim", f"is {dim!r} for an input of {np.shape(input)}", f"give -{rank} to {rank - 1}"
        )
    static = {"dim": dim if dim < 0 else dim - rank}
    return differentiable_by_several(client, name, f"{name}_backward", forward, static, {"input": input}, lambda _: {})[
        0
    ]


def embedding(
    input: Array,
    weight: Array,
    padding_idx: int | None = None,
    scale_grad_by_freq: bool = False,
    *,
    client: Client,
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
    static = {"num_weights": rows, "padding_idx": padding, "scale_grad_by_freq": scale_grad_by_freq}
    indices = jax.numpy.asarray(input)
    found = differentiable_by_several(
        client,
        "embedding",
        "embedding_dense_backward",
        _nonlinear.embedding,
        static,
        {"input": weight, "indices": indices.reshape(-1)},
        lambda _: {},
    )[0]
    return found.reshape(*indices.shape, np.shape(weight)[1])


def layer_norm(
    input: Array,
    normalized_shape: int | Sequence[int],
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
    return differentiable_by_several(
        client,
        "layer_norm",
        "layer_norm_backward",
        _nonlinear.layer_norm,
        {"normalized_shape": sizes, "eps": float(eps)},
        {"input": input, "weight": weight, "bias": bias},
        lambda _: {"weight": sizes, "bias": sizes},
    )[0]


def rms_norm(
    input: Array,
    normalized_shape: int | Sequence[int],
    weight: Array | None = None,
    eps: float | None = None,
    *,
    client: Client,
) -> Array:
    """Divides the last axes, of the sizes `normalized_shape`, by their root mean square, as PyTorch's function.

    One call has the gradients of `input` and `weight`; they have no derivatives of their own. Takes float32, float16
    and bfloat16, and a weight of float32 or the input's dtype.
    """
    sizes = _last_sizes(input, normalized_shape)
    if eps is not None:
        _check_eps(eps)
    gamma = jax.numpy.ones(sizes, input.dtype) if weight is None else weight
    return differentiable_by_several(
        client,
        "rms_norm",
        "rms_norm_grad",
        _nonlinear.rms_norm,
        {"eps": float(np.finfo(np.float32).eps if eps is None else eps)},
        {"input": input, "gamma": gamma},
        lambda _: {"gamma": sizes},
    )[0]


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
    sizes = {"n": shape[0], "c": shape[1], "hxw": int(np.prod(shape[2:])), "group": num_groups}
    return differentiable_by_several(
        client,
        "group_norm",
        "group_norm_backward",
        _nonlinear.group_norm,
        {**sizes, "eps": float(eps)},
        {"input": input, "gamma": weight, "bias": bias},
        lambda shape: dict.fromkeys(("gamma", "bias"), shape[1:2]),
    )[0]


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
    parameters = ("weight", "bias", *running)
    output, *statistics = differentiable_by_several(
        client,
        "batch_norm",
        "batch_norm_backward",
        _nonlinear.batch_norm,
        {"training": training, "momentum": float(momentum), "eps": float(eps)},
        {"input": input, "weight": weight, "bias": bias, **stopped},
        lambda shape: dict.fromkeys(parameters, shape[1:2]),
    )
    found: list[Any] = [jax.lax.stop_gradient(each) for each in statistics] or [None, None]
    return output, found[0], found[1]


def grid_sample(
    input: Array,
    grid: Array,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    *,
    client: Client,
) -> Array:
    """Samples the images (N, C, H, W) at the points of `grid` (N, oH, oW, 2), as `torch.nn.functional.grid_sample`.

    And so it does volumes (N, C, D, H, W) at points (N, oD, oH, oW, 3). The modes are "bilinear" and "nearest". One
    call has the gradients of `input` and `grid`; they have no derivatives of their own. Takes float32, float16 and
    bfloat16, and both in one dtype.
    """
    if mode not in _MODES:
        raise InvalidFieldError.at("mode", f"is {mode!r}", f"give {' or '.join(map(repr, _MODES))}")
    if padding_mode not in _PADDINGS:
        raise InvalidFieldError.at("padding_mode", f"is {padding_mode!r}", f"give {' or '.join(map(repr, _PADDINGS))}")
    axes = 3 if np.ndim(input) == 5 else 2
    points = np.shape(grid)[1:-1]
    static = {
        "interpolation_mode": _MODES.index(mode),
        "padding_mode": _PADDINGS.index(padding_mode),
        "align_corners": align_corners,
    }
    return differentiable_by_several(
        client,
        "grid_sample",
        f"grid_sampler{axes}d_backward",
        _nonlinear.grid_sample,
        static,
        {"input": input, "grid": grid},
        lambda shape: {"grid": (shape[0], *points, axes)},
    )[0]


def _last_sizes(input: Array, normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
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
