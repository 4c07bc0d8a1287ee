"""JAX with gradients from a server: forward passes are JAX's, backward passes are calls of a client.

import aclgrad, aclgrad.jax, jax

with aclgrad.Client("127.0.0.1:50051") as client:
    gradient = jax.grad(lambda images: aclgrad.jax.max_pool2d(images, 2, client=client).sum())(images)

The functions have the names, arguments and layout (N, C, H, W) of `torch.nn.functional`; products, convolutions and
attention have JAX's, as activations that PyTorch lacks or names otherwise, and losses have Optax's. `input` is an array
of JAX or numpy; the output has its dtype. A size is an integer or one for each axis, known when the function is traced.

If the server cannot compute a call, the forward pass raises `aclgrad.InvalidFieldError` with the argument's name: calls
ask for the server's operators, at most every 5 s. An error of a later call reaches the user as JAX's, with the operator
and the client's error in its text.
"""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np

from aclgrad.extras import of_extra

try:
    from jax import Array
except ModuleNotFoundError as error:
    raise of_extra(error, "jax") from None

from aclgrad._client.sync.client import Client
from aclgrad.bridges.rows import ROWS
from aclgrad.errors import InvalidFieldError
from aclgrad.jax import _forward
from aclgrad.jax._activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_tanh,
    hardshrink,
    hardswish,
    leaky_relu,
    log_sigmoid,
    mish,
    prelu,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    softplus,
    softshrink,
    swiglu,
    tanh,
    threshold,
)
from aclgrad.jax._attention import dot_product_attention
from aclgrad.jax._checks import checked_arrays, checked_sizes
from aclgrad.jax._convolutions import conv, conv_general_dilated, conv_transpose, conv_with_general_padding
from aclgrad.jax._dropout import dropout
from aclgrad.jax._gradients import differentiable
from aclgrad.jax._layers import batch_norm, embedding, group_norm, layer_norm, log_softmax, rms_norm, softmax
from aclgrad.jax._losses import (
    huber_loss,
    kl_divergence,
    kl_divergence_with_log_targets,
    l2_loss,
    sigmoid_binary_cross_entropy,
    softmax_cross_entropy_with_integer_labels,
    squared_error,
)
from aclgrad.jax._products import dot, dot_general, einsum, matmul, tensordot

__all__ = [
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool2d",
    "batch_norm",
    "celu",
    "conv",
    "conv_general_dilated",
    "conv_transpose",
    "conv_with_general_padding",
    "dot",
    "dot_general",
    "dot_product_attention",
    "dropout",
    "einsum",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "grid_sample",
    "group_norm",
    "hard_sigmoid",
    "hard_tanh",
    "hardshrink",
    "hardswish",
    "huber_loss",
    "interpolate",
    "kl_divergence",
    "kl_divergence_with_log_targets",
    "l2_loss",
    "layer_norm",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "matmul",
    "max_pool2d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "pad",
    "prelu",
    "relu",
    "relu6",
    "rms_norm",
    "roi_align",
    "selu",
    "sigmoid",
    "sigmoid_binary_cross_entropy",
    "silu",
    "softmax",
    "softmax_cross_entropy_with_integer_labels",
    "softplus",
    "softshrink",
    "squared_error",
    "swiglu",
    "tanh",
    "tensordot",
    "threshold",
]
Size = int | Sequence[int]
_MODES = ("bilinear", "nearest")
_PADDINGS = ("zeros", "border", "reflection")


def adaptive_avg_pool2d(input: Array, output_size: int | Sequence[int | None], *, client: Client) -> Array:
    """Averages (N, C, H, W) or (C, H, W) to `output_size`, as `torch.nn.functional.adaptive_avg_pool2d`.

    None stands for the size of the input's axis. Takes float32, float16 and bfloat16.
    """
    return _adaptive_avg_pool(2, input, output_size, client)


def adaptive_avg_pool3d(input: Array, output_size: int | Sequence[int | None], *, client: Client) -> Array:
    """Averages (N, C, D, H, W) or (C, D, H, W) to `output_size`, as `torch.nn.functional.adaptive_avg_pool3d`.

    None stands for the size of the input's axis. Takes float32, float16 and bfloat16, and float64 for an output of one
    cell.
    """
    return _adaptive_avg_pool(3, input, output_size, client)


def avg_pool2d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    client: Client,
) -> Array:
    """Averages the windows of (N, C, H, W) or (C, H, W), as `torch.nn.functional.avg_pool2d`.

    Takes float32, float16 and bfloat16. The padding is at most half the kernel.
    """
    window = _window(kernel_size, stride, padding, ceil_mode)
    more = {"count_include_pad": count_include_pad, "divisor_override": divisor_override or 0}
    return differentiable("avg_pool2d", client, _forward.avg_pool2d, {"input": input}, {**window, **more})


def max_pool2d(
    input: Array,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    return_indices: bool = False,
    *,
    client: Client,
) -> Any:
    """Takes the maxima of the windows of (N, C, H, W) or (C, H, W), as `torch.nn.functional.max_pool2d`.

    With `return_indices`, also returns their int32 positions in the plane, for `max_unpool2d`; the first of equal
    values wins. Takes float32, float16 and bfloat16. The padding is at most half the kernel, and there is no dilation.
    """
    window, again = _window(kernel_size, stride, padding, ceil_mode), _forward.take_positions
    pooled = differentiable("max_pool2d", client, _forward.max_pool2d, {"input": input}, window, again=again)
    return pooled if return_indices else pooled[0]


def max_unpool2d(input: Array, indices: Array, output_size: Sequence[int], *, client: Client) -> Array:
    """Puts (N, C, H, W) or (C, H, W) into zeros of `output_size`, as `torch.nn.functional.max_unpool2d`.

    `indices` are integers of the input's shape: positions in the flattened `output_size`, as `max_pool2d` returns them.
    The server refuses others in the backward pass. Takes float32 and float16.
    """
    return _max_unpool(2, input, indices, output_size, client)


def max_unpool3d(input: Array, indices: Array, output_size: Sequence[int], *, client: Client) -> Array:
    """Puts (N, C, D, H, W) or (C, D, H, W) into zeros of `output_size`, as `torch.nn.functional.max_unpool3d`.

    `indices` are integers of the input's shape: positions in the flattened `output_size`. The server refuses others in
    the backward pass. Takes float32, float16 and float64.
    """
    return _max_unpool(3, input, indices, output_size, client)


def pad(input: Array, pad: Sequence[int], mode: str, *, client: Client) -> Array:
    """Pads the last axes, as `torch.nn.functional.pad` with the mode "replicate" or "reflect".

    `pad` has two values (before, after) for one to three axes, beginning with the last; negative ones crop, except
    over three axes. The input has one or two axes before those. Takes every float and complex dtype, and bfloat16 only
    for narrow padding.
    """
    rule = {"replicate": "replication", "reflect": "reflection"}.get(mode, mode)
    count = len(pad) if isinstance(pad, Sequence | np.ndarray) else 0
    name = f"{rule}_pad{count // 2}d"
    if count % 2 or name not in ROWS:
        raise InvalidFieldError.at("mode", f"is {mode!r} for {count} values of pad", "use jax.numpy.pad")
    return differentiable(name, client, _forward.pad, {"input": input}, {"padding": pad, "mode": mode})


def interpolate(
    input: Array,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool = False,
    *,
    client: Client,
) -> Array:
    """Resizes (N, C, H, W), as `torch.nn.functional.interpolate` with the mode "nearest" or "bilinear".

    "bilinear" is what `jax.image.resize` does with "linear" and without antialias. Takes float32, float16 and bfloat16;
    either a size, or a scale that makes whole sizes.
    """
    if mode not in _MODES:
        raise InvalidFieldError.at("mode", f"is {mode!r}", f"give {' or '.join(map(repr, _MODES))}")
    name = f"upsample_{mode}2d"
    if (size is None) == (scale_factor is None):
        raise InvalidFieldError.at("size", f"is {size} and scale_factor {scale_factor}", "give one of them")
    if scale_factor is None:
        sizes = checked_sizes("size", size, 2)
    else:
        checked = checked_arrays(ROWS[name], {"input": input}, {})
        sizes = _scaled(checked["input"].shape[2:], scale_factor)
    static: dict[str, Any] = {"output_size": sizes}
    if mode == "nearest":
        return differentiable(name, client, _forward.interpolate, {"input": input}, static)
    static["align_corners"] = align_corners
    return differentiable(name, client, _forward.interpolate_bilinear, {"input": input}, static)


def roi_align(
    input: Array,
    boxes: Array,
    output_size: Size,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 2,
    aligned: bool = False,
    *,
    client: Client,
) -> Array:
    """Pools boxes of (N, C, H, W) to (K, C, *output_size), as `torchvision.ops.roi_align`.

    `boxes` has the shape (K, 5): image, x1, y1, x2 and y2. Takes float32. `sampling_ratio` is at least 1.
    """
    pooled = checked_sizes("output_size", output_size, 2)
    if isinstance(sampling_ratio, int) and sampling_ratio < 1:
        problem, remedy = f"is {sampling_ratio}, and JAX needs to know the number of samples", "give at least 1"
        raise InvalidFieldError.at("sampling_ratio", problem, remedy)
    static = {"pooled_height": pooled[0], "pooled_width": pooled[1], "spatial_scale": spatial_scale}
    static |= {"sampling_ratio": sampling_ratio, "aligned": aligned}
    arrays, forward = {"input": input, "boxes": boxes}, _forward.roi_align
    return differentiable("roi_align", client, forward, arrays, static, {"boxes": (*np.shape(boxes)[:1], 5)})


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
    for name, value, known in (("mode", mode, _MODES), ("padding_mode", padding_mode, _PADDINGS)):
        if value not in known:
            raise InvalidFieldError.at(name, f"is {value!r}", f"give {' or '.join(map(repr, known))}")
    rule = {"interpolation_mode": _MODES.index(mode), "padding_mode": _PADDINGS.index(padding_mode)}
    arrays, static = {"input": input, "grid": grid}, {**rule, "align_corners": align_corners}
    axes = 3 if np.ndim(input) == 5 else 2
    shapes = {"grid": (*np.shape(input)[:1], *np.shape(grid)[1:-1], axes)}
    return differentiable(f"grid_sampler_{axes}d", client, _forward.grid_sample, arrays, static, shapes)


def _adaptive_avg_pool(axes: int, input: Array, output_size: int | Sequence[int | None], client: Client) -> Array:
    name, sizes = f"adaptive_avg_pool{axes}d", checked_sizes("output_size", output_size, axes)
    return differentiable(name, client, _forward.adaptive_avg_pool, {"input": input}, {"output_size": sizes})


def _max_unpool(axes: int, input: Array, indices: Array, output_size: Sequence[int], client: Client) -> Array:
    arrays, sizes = {"input": input, "indices": indices}, checked_sizes("output_size", output_size, axes)
    static, shapes, forward = {"output_size": sizes}, {"indices": np.shape(input)}, _forward.max_unpool
    return differentiable(f"max_unpool{axes}d", client, forward, arrays, static, shapes)


def _window(kernel_size: Size, stride: Size | None, padding: Size, ceil_mode: bool) -> dict[str, Any]:
    own = () if stride is None else stride
    return {"kernel_size": kernel_size, "stride": own, "padding": padding, "ceil_mode": ceil_mode}


def _scaled(sizes: Sequence[int], scale_factor: Any) -> tuple[int, ...]:
    """Returns the scaled sizes; raises InvalidFieldError if PyTorch would not take the cells by the ratio of sizes."""
    scales = scale_factor if isinstance(scale_factor, Sequence) else [scale_factor] * len(sizes)
    factors = [float(each) if isinstance(each, Real) else 0.0 for each in scales]
    pairs = zip(sizes, factors, strict=False)
    scaled = [int(size * factor) for size, factor in pairs if factor > 0 and _is_ratio_of_sizes(size, factor)]
    if not len(scales) == len(scaled) == len(sizes):
        problem = f"is {scale_factor!r} for the sizes {tuple(sizes)}, and the operator takes the ratio of whole sizes"
        raise InvalidFieldError.at("scale_factor", problem, "give a size")
    return tuple(scaled)


def _is_ratio_of_sizes(size: int, scale: float) -> bool:
    whole = size * scale
    return whole.is_integer() and bool(np.float32(1 / scale) == np.float32(size) / np.float32(whole))
