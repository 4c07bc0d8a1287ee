"""PyTorch's functions with the gradients of sample cases, except attention and losses."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from aclgrad.judge.msprobe.arguments import Api, Arguments, Array, Given, Tensor
from aclgrad.judge.msprobe.attention import ATTENTION
from aclgrad.judge.msprobe.losses import LOSSES
from aclgrad.masks import pair
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.families.convolution.geometry import for_axes
from aclgrad.operators.layer_norm_backward.definition import EPSILON

_MOMENTUM: Final = 0.1
_NO_GRADIENT: Final = "acc_check checks gradients, and no function of PyTorch has this one."
_NO_BACKWARD: Final = "acc_check checks gradients, and this operator returns values."
_OF_TORCH_NPU: Final = "acc_check knows the function as one of torch_npu, which only a machine with a card has."


def _adaptive_avg_pool(axes: int) -> Api:
    def arguments(given: Given) -> Arguments:
        return given.tensor("self"), given.arrays["grad_output"].shape[-axes:]

    return Api(f"Functional.adaptive_avg_pool{axes}d", arguments)


def _avg_pool2d(given: Given) -> Arguments:
    counts = given["ceil_mode"], given["count_include_pad"], given["divisor_override"] or None
    return given.tensor("self"), *_windows(given), *counts


def _max_pool2d(given: Given) -> Arguments:
    return given.tensor("self"), *_windows(given), pair(given["dilation"]), given["ceil_mode"]


def _windows(given: Given) -> tuple[tuple[int, int], ...]:
    """Returns kernel, stride and padding."""
    kernel = given["kernel_size"]
    return pair(kernel), pair(given["stride"] or kernel), pair(given["padding"])


def _max_unpool(axes: int) -> Api:
    """Windows of any size unpool alike, because only the indices matter. These have stride 1 and the case's size."""

    def arguments(given: Given) -> Arguments:
        input, indices = given.arrays["self"], given.arrays["indices"]
        sizes = list(zip(input.shape[-axes:], given["output_size"], strict=True))
        padding = tuple(max(0, (before - after + 1) // 2) for before, after in sizes)
        kernel = tuple(after - before + 1 + 2 * pad for (before, after), pad in zip(sizes, padding, strict=True))
        return given.tensor("self"), Tensor(indices.astype(np.int64)), kernel, (1,) * axes, padding

    return Api(f"Functional.max_unpool{axes}d", arguments)


def _pad(mode: str) -> Api:
    return Api("Functional.pad", lambda given: (given.tensor("self"), given["padding"], mode))


def _interpolate(mode: str) -> Api:
    """Any input has the same gradient; a scale of 0 stands for the ratio of the sizes."""

    def arguments(given: Given) -> Arguments:
        shape, size = given["input_size"], given["output_size"]
        scales = [given["scales_h"], given["scales_w"]]
        dtype = given.arrays["grad_output"].dtype
        input = given.with_gradient("self", np.random.default_rng(0).standard_normal(shape).astype(dtype))
        if any(scales):
            ratios = [after / before for before, after in zip(shape[2:], size, strict=True)]
            scales = [scale or ratio for scale, ratio in zip(scales, ratios, strict=True)]
            size = None
        more = (given["align_corners"],) if mode == "bilinear" else ()
        return input, size, None if size else tuple(scales), mode, *more

    return Api("Functional.interpolate", arguments)


def _grid_sample(given: Given) -> Arguments:
    mode = ("bilinear", "nearest")[given["interpolation_mode"]]
    padding = ("zeros", "border", "reflection")[given["padding_mode"]]
    return given.tensor("input"), given.tensor("grid"), mode, padding, given["align_corners"]


def _embedding(given: Given) -> Arguments:
    """Any weight has the same gradient."""
    grad_output = given.arrays["grad_output"]
    shape = given["num_weights"], grad_output.shape[-1]
    weight = np.random.default_rng(0).standard_normal(shape).astype(grad_output.dtype)
    padding = given["padding_idx"]
    indices = Tensor(given.arrays["indices"].astype(np.int64))
    options = None if padding < 0 else padding, None, 2.0, given["scale_grad_by_freq"]
    return indices, given.with_gradient("input", weight), *options


def _of_output(function: str, inverse: Callable[[Array], Array], *attributes: str) -> Api:
    """An input with this output, at which the gradient is the case's."""

    def arguments(given: Given) -> Arguments:
        output = given.arrays["output"]
        input = np.asarray(inverse(output.astype(np.float64)), output.dtype)
        return given.with_gradient("input", input), *(given[each] for each in attributes)

    return Api(f"Functional.{function}", arguments)


def _elementwise(function: str, *attributes: str) -> Api:
    return Api(f"Functional.{function}", lambda given: (given.tensor("self"), *(given[each] for each in attributes)))


_SELU: Final = (1.6732632423543772, 1.0507009873554805, 1.0)
"""SELU's numbers of ELU."""


def _numbers_of_elu(typed: TypedCase) -> tuple[float, ...]:
    return tuple(typed.arguments.double(each) for each in ("alpha", "scale", "input_scale"))


def _name_of_elu(typed: TypedCase) -> str:
    alpha, scale, input_scale = numbers = _numbers_of_elu(typed)
    is_celu = scale == 1 and input_scale != 1 and alpha * input_scale == 1
    return f"Functional.{'selu' if numbers == _SELU else 'celu' if is_celu else 'elu'}"


def _elu(given: Given) -> Arguments:
    input = given.with_gradient("input", given.arrays["self_or_result"])
    return (input,) if _name_of_elu(given.typed) == "Functional.selu" else (input, given["alpha"])


def _refuses_elu(typed: TypedCase) -> str:
    if typed.attributes["is_result"]:
        return "acc_check has no input for the saved result."
    is_elu = _name_of_elu(typed) != "Functional.elu" or _numbers_of_elu(typed)[1:] == (1, 1)
    return "" if is_elu else "PyTorch has no function with these numbers."


def _gelu(approximate: Callable[[Given], str]) -> Api:
    return Api(
        "Functional.gelu", lambda given: (given.tensor("self"),), lambda given: {"approximate": approximate(given)}
    )


def _threshold(given: Given) -> Arguments:
    """The values that the function puts below the threshold have no gradient."""
    return given.tensor("self"), given["threshold"], 0.0


def _layer_norm(given: Given) -> Arguments:
    names = ("weight", "bias")
    return given.tensor("input"), given["normalized_shape"], *map(given.tensor, names), EPSILON


def _group_norm(given: Given) -> Arguments:
    """The operator is not given the bias, which has the weight's type."""
    gamma = given.tensor("gamma")
    bias = given.with_gradient("bias", np.zeros_like(gamma.values)) if gamma else None
    return given.tensor("input"), given["group"], gamma, bias, EPSILON


def _batch_norm(given: Given) -> Arguments:
    """The operator is not given the bias, which has the weight's type."""
    weight = given.tensor("weight")
    bias = given.with_gradient("bias", np.zeros_like(weight.values)) if weight else None
    running = map(given.tensor, ("running_mean", "running_var"))
    return given.tensor("input"), *running, weight, bias, given["training"], _MOMENTUM, given["eps"]


def _name_of_convolution(typed: TypedCase) -> str:
    axes = typed.arguments.inputs["input"].rank - 2
    return f"Functional.conv{'_transpose' if typed.attributes['transposed'] else ''}{axes}d"


def _convolution(given: Given) -> Arguments:
    """The operator does not get the bias, whose values do not matter."""
    grad_output = given.arrays["grad_output"]
    bias = given.with_gradient("bias", np.zeros(grad_output.shape[1], grad_output.dtype))
    tensors = given.tensor("input"), given.tensor("weight"), bias
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, more = (for_axes(given[each], grad_output.ndim - 2) for each in names)
    if given["transposed"]:
        return *tensors, stride, padding, more, given["groups"], dilation
    return *tensors, stride, padding, dilation, given["groups"]


def _product(name: str, weight: Callable[[Array], Array]) -> Api:
    """A function of any input and of `weight(mat2)`; its gradient is self @ mat2, where self is the result's
    gradient."""

    def grad_output(given: Given) -> Array:
        left, right = given.arrays["self"], given.arrays["mat2"]
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        return np.array(np.broadcast_to(left, (*batch, *left.shape[-2:])))

    def arguments(given: Given) -> Arguments:
        left, right = grad_output(given), given.arrays["mat2"]
        shape = *left.shape[:-1], right.shape[-1]
        input = np.random.default_rng(0).standard_normal(shape).astype(left.dtype)
        whole = np.broadcast_to(right, (*left.shape[:-2], *right.shape[-2:]))
        return given.with_gradient("self", input), Tensor(np.array(weight(whole), order="C"))

    return Api(name, arguments, grad_output=grad_output, refuses=_refuses_product)


def _refuses_product(typed: TypedCase) -> str:
    if any(len(shape) < 2 for shape in typed.case.shapes.values()):
        return "PyTorch's gradients of products of vectors have other shapes."
    return _refuses_rounding(typed)


def _refuses_rounding(typed: TypedCase) -> str:
    return "acc_check multiplies float32 in full." if typed.attributes.get("cube_math_type") else ""


APIS: Final[Mapping[str, Api]] = {
    "adaptive_avg_pool2d_backward": _adaptive_avg_pool(2),
    "adaptive_avg_pool3d_backward": _adaptive_avg_pool(3),
    "addmm": Api("Torch.addmm", refusal=_NO_GRADIENT),
    "avg_pool2d_backward": Api("Functional.avg_pool2d", _avg_pool2d),
    "batch_mat_mul": _product("Torch.bmm", lambda mat2: mat2.swapaxes(-1, -2)),
    "batch_norm_backward": Api("Functional.batch_norm", _batch_norm),
    "convolution_backward": Api(_name_of_convolution, _convolution, refuses=_refuses_rounding),
    "dropout_do_mask": Api("Functional.dropout", refusal="acc_check would draw other elements to drop."),
    "elu_backward": Api(_name_of_elu, _elu, refuses=_refuses_elu),
    "embedding_dense_backward": Api("Functional.embedding", _embedding),
    "gelu_backward": _gelu(lambda _: "tanh"),
    "gelu_backward_v2": _gelu(lambda given: str(given["approximate"])),
    "glu_backward": _elementwise("glu", "dim"),
    "grid_sampler2d": Api("Functional.grid_sample", refusal=_NO_BACKWARD),
    **{f"grid_sampler{axes}d_backward": Api("Functional.grid_sample", _grid_sample) for axes in (2, 3)},
    "group_norm_backward": Api("Functional.group_norm", _group_norm),
    "hardshrink_backward": _elementwise("hardshrink", "lambd"),
    "hardsigmoid_backward": _elementwise("hardsigmoid"),
    "hardswish_backward": _elementwise("hardswish"),
    "hardtanh_backward": _elementwise("hardtanh", "min", "max"),
    "layer_norm_backward": Api("Functional.layer_norm", _layer_norm),
    # Also for the result, which has the signs of the input.
    "leaky_relu_backward": _elementwise("leaky_relu", "negative_slope"),
    "log_sigmoid_backward": _elementwise("logsigmoid"),
    "log_softmax_backward": _of_output("log_softmax", lambda output: output, "dim"),
    "matmul": _product("Torch.matmul", lambda mat2: mat2.swapaxes(-1, -2)),
    "max_pool2d_with_indices_backward": Api("Functional.max_pool2d", _max_pool2d),
    "max_pool2d_with_mask_backward": Api("Functional.max_pool2d", _max_pool2d),
    "max_unpool2d_backward": _max_unpool(2),
    "max_unpool3d_backward": _max_unpool(3),
    "mish_backward": _elementwise("mish"),
    "mm": _product("Functional.linear", lambda mat2: mat2),
    "prelu_backward": Api("Functional.prelu", lambda given: (given.tensor("self"), given.tensor("weight"))),
    "reduce_sum": Api("Torch.sum", refusal=_NO_GRADIENT),
    **{f"reflection_pad{axes}d_backward": _pad("reflect") for axes in (1, 2, 3)},
    **{f"replication_pad{axes}d_backward": _pad("replicate") for axes in (1, 2, 3)},
    "rms_norm_grad": Api("NPU.npu_rms_norm", refusal=_OF_TORCH_NPU),
    "roi_align_v2": Api("torchvision.ops.roi_align", refusal=_NO_BACKWARD),
    "roi_align_v2_backward": Api(
        "torchvision.ops.roi_align", refusal="acc_check reports RoI align as passed without computing it."
    ),
    "rotary_position_embedding_grad": Api("NPU.npu_rotary_mul", refusal=_OF_TORCH_NPU),
    "sigmoid_backward": _of_output("sigmoid", lambda output: np.log(output / (1 - output))),
    "silu_backward": _elementwise("silu"),
    "softmax_backward": _of_output(
        "softmax", lambda output: np.log(np.maximum(output, np.finfo(np.float32).tiny)), "dim"
    ),
    "softplus_backward": _elementwise("softplus", "beta", "threshold"),
    "softshrink_backward": _elementwise("softshrink", "lambd"),
    "swi_glu_grad": Api("NPU.npu_swiglu", refusal=_OF_TORCH_NPU),
    "tanh_backward": _of_output("tanh", np.arctanh),
    "threshold_backward": Api("Functional.threshold", _threshold),
    "upsample_bilinear2d": Api("Functional.interpolate", refusal=_NO_BACKWARD),
    "upsample_bilinear2d_backward_v2": _interpolate("bilinear"),
    "upsample_nearest2d_backward": _interpolate("nearest"),
    "upsample_nearest2d_v2": Api("Functional.interpolate", refusal=_NO_BACKWARD),
    **ATTENTION,
    **LOSSES,
}
"""Functions by operator."""


def api_of_operator(name: str) -> Api:
    """Returns the PyTorch call for an operator, by its wire name. Forward functions' calls have no backward pass."""
    return APIS.get(name) or Api(f"Torch.{name}", refusal=_NO_BACKWARD)
