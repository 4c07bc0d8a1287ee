"""The calls of PyTorch that have the gradients of the sample cases: what acc_check runs in the place of an operator."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aclgrad.masks import pair
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.convolution_backward.geometry import for_axes
from aclgrad.operators.layer_norm_backward.definition import EPSILON
from aclgrad.operators.samples import Arrays
from aclgrad.products import Product

Array = np.ndarray[Any, Any]

_MOMENTUM: Final = 0.1
_NO_GRADIENT: Final = "acc_check checks gradients, and no function of PyTorch has this one."
_OF_16_BITS: Final = "acc_check would compute the saved output again, from an input that 16 bits do not hold."
_OF_TORCH_NPU: Final = "acc_check knows the function as one of torch_npu, which only a machine with a card has."


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor among the arguments. `gradient` names the operator's output that is its gradient, if one is."""

    values: Array
    gradient: str | None = None

    @property
    def dtype(self) -> str:
        return str(self.values.dtype.name)


Argument = Tensor | bool | int | float | str | Sequence[int] | None
Arguments = tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """A call of PyTorch, and the gradient of its result. No tensor is an argument by keyword.

    `api` is the name that msprobe has for the function, such as Functional.pad.
    """

    api: str
    arguments: Arguments
    keywords: Mapping[str, Argument]
    grad_output: Array

    @property
    def tensors(self) -> list[Tensor]:
        """The arguments that are tensors: msprobe numbers gradients by their places among these."""
        return [each for each in self.arguments if isinstance(each, Tensor)]


@dataclass(frozen=True, slots=True)
class _Given:
    """A case: its inputs as arguments, and its attributes."""

    typed: TypedCase
    arrays: Arrays

    def __getitem__(self, attribute: str) -> Any:
        return self.typed.attributes[attribute]

    def tensor(self, name: str) -> Tensor | None:
        """Returns the input of this name, or None if the case leaves it out."""
        values = self.arrays.get(name)
        return None if values is None else self.with_gradient(name, values)

    def with_gradient(self, name: str, values: Array) -> Tensor:
        """Returns the tensor of this name with the output that is its gradient, or stands for one."""
        return Tensor(values, next((each.name for each in self.typed.spec.outputs if each.of == name), None))


@dataclass(frozen=True, slots=True)
class _Api:
    """A function of PyTorch with its arguments for a case, and the gradient of its result.

    Or with the reason why acc_check cannot check it, which some cases may have by themselves.
    """

    name: str | Callable[[TypedCase], str]
    arguments: Callable[[_Given], Arguments] = lambda _: ()
    keywords: Callable[[_Given], Mapping[str, Argument]] = lambda _: {}
    refusal: str = ""
    grad_output: Callable[[_Given], Array] = lambda given: given.arrays["grad_output"]
    refuses: Callable[[TypedCase], str] = lambda _: ""

    def name_of(self, typed: TypedCase) -> str:
        """Returns msprobe's name for the function, which for some operators depends on the case."""
        return self.name if isinstance(self.name, str) else self.name(typed)


def _adaptive_avg_pool(axes: int) -> _Api:
    def arguments(given: _Given) -> Arguments:
        return given.tensor("self"), given.arrays["grad_output"].shape[-axes:]

    return _Api(f"Functional.adaptive_avg_pool{axes}d", arguments)


def _avg_pool2d(given: _Given) -> Arguments:
    counts = given["ceil_mode"], given["count_include_pad"], given["divisor_override"] or None
    return given.tensor("self"), *_windows(given), *counts


def _max_pool2d(given: _Given) -> Arguments:
    return given.tensor("self"), *_windows(given), pair(given["dilation"]), given["ceil_mode"]


def _windows(given: _Given) -> tuple[tuple[int, int], ...]:
    """Returns kernel, stride and padding."""
    kernel = given["kernel_size"]
    return pair(kernel), pair(given["stride"] or kernel), pair(given["padding"])


def _max_unpool(axes: int) -> _Api:
    """Windows of any size unpool alike: the indices say all. These are of stride 1, and have the case's size."""

    def arguments(given: _Given) -> Arguments:
        input, indices = given.arrays["self"], given.arrays["indices"]
        sizes = list(zip(input.shape[-axes:], given["output_size"], strict=True))
        padding = tuple(max(0, (before - after + 1) // 2) for before, after in sizes)
        kernel = tuple(after - before + 1 + 2 * pad for (before, after), pad in zip(sizes, padding, strict=True))
        return given.tensor("self"), Tensor(indices.astype(np.int64)), kernel, (1,) * axes, padding

    return _Api(f"Functional.max_unpool{axes}d", arguments)


def _pad(mode: str) -> _Api:
    return _Api("Functional.pad", lambda given: (given.tensor("self"), given["padding"], mode))


def _interpolate(given: _Given) -> Arguments:
    """Any input has the same gradient; a scale of 0 stands for the ratio of the sizes."""
    shape, size = given["input_size"], given["output_size"]
    scales = [given["scales_h"], given["scales_w"]]
    dtype = given.arrays["grad_output"].dtype
    input = given.with_gradient("self", np.random.default_rng(0).standard_normal(shape).astype(dtype))
    if not any(scales):
        return input, size, None, "nearest"
    ratios = [after / before for before, after in zip(shape[2:], size, strict=True)]
    return input, None, tuple(scale or ratio for scale, ratio in zip(scales, ratios, strict=True)), "nearest"


def _grid_sample(given: _Given) -> Arguments:
    mode = ("bilinear", "nearest")[given["interpolation_mode"]]
    padding = ("zeros", "border", "reflection")[given["padding_mode"]]
    return given.tensor("input"), given.tensor("grid"), mode, padding, given["align_corners"]


def _embedding(given: _Given) -> Arguments:
    """Any weight has the same gradient."""
    grad_output = given.arrays["grad_output"]
    shape = given["num_weights"], grad_output.shape[-1]
    weight = np.random.default_rng(0).standard_normal(shape).astype(grad_output.dtype)
    padding = given["padding_idx"]
    indices = Tensor(given.arrays["indices"].astype(np.int64))
    options = None if padding < 0 else padding, None, 2.0, given["scale_grad_by_freq"]
    return indices, given.with_gradient("input", weight), *options


def _of_output(function: str, inverse: Callable[[Array], Array], *attributes: str) -> _Api:
    """An input with this output, at which the gradient is the case's."""

    def arguments(given: _Given) -> Arguments:
        output = given.arrays["output"]
        input = np.asarray(inverse(output.astype(np.float64)), output.dtype)
        return given.with_gradient("input", input), *(given[each] for each in attributes)

    return _Api(f"Functional.{function}", arguments)


def _elementwise(function: str, *attributes: str) -> _Api:
    return _Api(f"Functional.{function}", lambda given: (given.tensor("self"), *(given[each] for each in attributes)))


_SELU: Final = (1.6732632423543772, 1.0507009873554805, 1.0)
"""The numbers of ELU that SELU has."""


def _numbers_of_elu(typed: TypedCase) -> tuple[float, ...]:
    return tuple(typed.arguments.double(each) for each in ("alpha", "scale", "input_scale"))


def _name_of_elu(typed: TypedCase) -> str:
    alpha, scale, input_scale = numbers = _numbers_of_elu(typed)
    is_celu = scale == 1 and input_scale != 1 and alpha * input_scale == 1
    return f"Functional.{'selu' if numbers == _SELU else 'celu' if is_celu else 'elu'}"


def _elu(given: _Given) -> Arguments:
    input = given.with_gradient("input", given.arrays["self_or_result"])
    return (input,) if _name_of_elu(given.typed) == "Functional.selu" else (input, given["alpha"])


def _refuses_elu(typed: TypedCase) -> str:
    if typed.attributes["is_result"]:
        return "acc_check has no input for the saved result."
    is_elu = _name_of_elu(typed) != "Functional.elu" or _numbers_of_elu(typed)[1:] == (1, 1)
    return "" if is_elu else "PyTorch has no function with these numbers."


def _gelu(approximate: Callable[[_Given], str]) -> _Api:
    return _Api(
        "Functional.gelu", lambda given: (given.tensor("self"),), lambda given: {"approximate": approximate(given)}
    )


def _threshold(given: _Given) -> Arguments:
    """Whatever the function puts below the threshold has no gradient."""
    return given.tensor("self"), given["threshold"], 0.0


_REDUCTIONS: Final = ("none", "mean", "sum", "batchmean")


def _input_and_target(given: _Given) -> Arguments:
    input = given.arrays["self"]
    return given.tensor("self"), Tensor(np.array(np.broadcast_to(given.arrays["target"], input.shape)))


def _loss(function: str, *attributes: str, **options: Any) -> _Api:
    """A loss of each element, whose target has the input's shape, as PyTorch wants it."""

    def grad_output(given: _Given) -> Array:
        own, shape = given.arrays["grad_output"], given.arrays["self"].shape
        return np.array(own.reshape(()) if given["reduction"] else np.broadcast_to(own, shape))

    def keywords(given: _Given) -> Mapping[str, Argument]:
        return {"reduction": _REDUCTIONS[given["reduction"]], **{each: given[each] for each in attributes}}

    made = {"arguments": _input_and_target, "keywords": keywords, "grad_output": grad_output, "refuses": _refuses_loss}
    return _Api(f"Functional.{function}", **{**made, **options})


def _refuses_loss(typed: TypedCase) -> str:
    is_one = typed.arguments.inputs["grad_output"].element_count == 1
    return "" if is_one or not typed.attributes["reduction"] else "PyTorch's loss is one number here."


def _weighted(*places: str | None) -> Callable[[_Given], Arguments]:
    """Returns the arguments behind input and target: weights, and None for what PyTorch no longer takes."""

    def arguments(given: _Given) -> Arguments:
        values = {"reduction": _REDUCTIONS[given["reduction"]]}
        return *_input_and_target(given), *(each and (values.get(each) or given.tensor(each)) for each in places)

    return arguments


def _nll_loss(given: _Given) -> Arguments:
    return given.tensor("self"), Tensor(given.arrays["target"].astype(np.int64)), given.tensor("weight")


def _cross_entropy(given: _Given) -> Arguments:
    """Logits that are logarithms of shares are those logarithms."""
    logits = given.with_gradient("input", given.arrays["log_prob"])
    return logits, given.tensor("target"), given.tensor("weight")


def _of_classes(function: str, arguments: Callable[[_Given], Arguments], *attributes: str, **options: Any) -> _Api:
    def keywords(given: _Given) -> Mapping[str, Argument]:
        reduction = given["reduction"]
        named = reduction if isinstance(reduction, str) else _REDUCTIONS[reduction]
        return {"reduction": named, **{each: given[each] for each in ("ignore_index", *attributes)}}

    return _Api(f"Functional.{function}", arguments, keywords, **options)


def _refuses_total(typed: TypedCase) -> str:
    is_half = typed.dtype in ("float16", "bfloat16")
    is_mean = _REDUCTIONS[typed.arguments.int("reduction")] == "mean"
    return "acc_check would add up the weights again, and 16 bits do not hold their sum." if is_half and is_mean else ""


def _refuses_halves(typed: TypedCase) -> str:
    return _OF_16_BITS if typed.dtype in ("float16", "bfloat16") else ""


def _layer_norm(given: _Given) -> Arguments:
    names = ("weight", "bias")
    return given.tensor("input"), given["normalized_shape"], *map(given.tensor, names), EPSILON


def _group_norm(given: _Given) -> Arguments:
    """The operator is not given the bias, which has the weight's type."""
    gamma = given.tensor("gamma")
    bias = given.with_gradient("bias", np.zeros_like(gamma.values)) if gamma else None
    return given.tensor("input"), given["group"], gamma, bias, EPSILON


def _batch_norm(given: _Given) -> Arguments:
    """The operator is not given the bias, which has the weight's type."""
    weight = given.tensor("weight")
    bias = given.with_gradient("bias", np.zeros_like(weight.values)) if weight else None
    running = map(given.tensor, ("running_mean", "running_var"))
    return given.tensor("input"), *running, weight, bias, given["training"], _MOMENTUM, given["eps"]


def _name_of_convolution(typed: TypedCase) -> str:
    axes = typed.arguments.inputs["input"].rank - 2
    return f"Functional.conv{'_transpose' if typed.attributes['transposed'] else ''}{axes}d"


def _convolution(given: _Given) -> Arguments:
    """The operator is not given the bias, of any values."""
    grad_output = given.arrays["grad_output"]
    bias = given.with_gradient("bias", np.zeros(grad_output.shape[1], grad_output.dtype))
    tensors = given.tensor("input"), given.tensor("weight"), bias
    names = ("stride", "padding", "dilation", "output_padding")
    stride, padding, dilation, more = (for_axes(given[each], grad_output.ndim - 2) for each in names)
    if given["transposed"]:
        return *tensors, stride, padding, more, given["groups"], dilation
    return *tensors, stride, padding, dilation, given["groups"]


def _product(name: str, weight: Callable[[Array], Array]) -> _Api:
    """A function of any input, and of `weight(mat2)`: the input's gradient is self @ mat2 if self is the result's."""

    def grad_output(given: _Given) -> Array:
        left, right = given.arrays["self"], given.arrays["mat2"]
        batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        return np.array(np.broadcast_to(left, (*batch, *left.shape[-2:])))

    def arguments(given: _Given) -> Arguments:
        left, right = grad_output(given), given.arrays["mat2"]
        shape = *left.shape[:-1], right.shape[-1]
        input = np.random.default_rng(0).standard_normal(shape).astype(left.dtype)
        whole = np.broadcast_to(right, (*left.shape[:-2], *right.shape[-2:]))
        return given.with_gradient("self", input), Tensor(np.array(weight(whole), order="C"))

    return _Api(name, arguments, grad_output=grad_output, refuses=_refuses_product)


def _refuses_product(typed: TypedCase) -> str:
    if any(len(shape) < 2 for shape in typed.case.shapes.values()):
        return "PyTorch's gradients of products of vectors have other shapes."
    return _refuses_rounding(typed)


def _refuses_rounding(typed: TypedCase) -> str:
    return "acc_check multiplies float32 in full." if typed.attributes.get("cube_math_type") else ""


_APIS: Final[Mapping[str, _Api]] = {
    "adaptive_avg_pool2d_backward": _adaptive_avg_pool(2),
    "adaptive_avg_pool3d_backward": _adaptive_avg_pool(3),
    "addmm": _Api("Torch.addmm", refusal=_NO_GRADIENT),
    "avg_pool2d_backward": _Api("Functional.avg_pool2d", _avg_pool2d),
    "batch_mat_mul": _product("Torch.bmm", lambda mat2: mat2.swapaxes(-1, -2)),
    "batch_norm_backward": _Api("Functional.batch_norm", _batch_norm),
    "binary_cross_entropy_backward": _loss("binary_cross_entropy", arguments=_weighted("weight")),
    "binary_cross_entropy_with_logits_backward": _loss(
        "binary_cross_entropy_with_logits",
        arguments=_weighted("weight", None, None, "reduction", "pos_weight"),
        keywords=lambda _: {},
    ),
    "convolution_backward": _Api(_name_of_convolution, _convolution, refuses=_refuses_rounding),
    "cross_entropy_loss_grad": _of_classes("cross_entropy", _cross_entropy, "label_smoothing", refuses=_refuses_halves),
    "elu_backward": _Api(_name_of_elu, _elu, refuses=_refuses_elu),
    "embedding_dense_backward": _Api("Functional.embedding", _embedding),
    "gelu_backward": _gelu(lambda _: "tanh"),
    "gelu_backward_v2": _gelu(lambda given: str(given["approximate"])),
    **{f"grid_sampler{axes}d_backward": _Api("Functional.grid_sample", _grid_sample) for axes in (2, 3)},
    "group_norm_backward": _Api("Functional.group_norm", _group_norm),
    "hardshrink_backward": _elementwise("hardshrink", "lambd"),
    "hardsigmoid_backward": _elementwise("hardsigmoid"),
    "hardswish_backward": _elementwise("hardswish"),
    "hardtanh_backward": _elementwise("hardtanh", "min", "max"),
    "kl_div_backward": _loss("kl_div", "log_target"),
    "l1_loss_backward": _loss("l1_loss"),
    "layer_norm_backward": _Api("Functional.layer_norm", _layer_norm),
    # Of the result, too: it has the signs of the input.
    "leaky_relu_backward": _elementwise("leaky_relu", "negative_slope"),
    "log_sigmoid_backward": _elementwise("logsigmoid"),
    "log_softmax_backward": _of_output("log_softmax", lambda output: output, "dim"),
    "matmul": _product("Torch.matmul", lambda mat2: mat2.swapaxes(-1, -2)),
    "max_pool2d_with_indices_backward": _Api("Functional.max_pool2d", _max_pool2d),
    "max_pool2d_with_mask_backward": _Api("Functional.max_pool2d", _max_pool2d),
    "max_unpool2d_backward": _max_unpool(2),
    "max_unpool3d_backward": _max_unpool(3),
    "mish_backward": _elementwise("mish"),
    "mm": _product("Functional.linear", lambda mat2: mat2),
    "mse_loss_backward": _loss("mse_loss"),
    **dict.fromkeys(
        ("nll_loss_backward", "nll_loss2d_backward"), _of_classes("nll_loss", _nll_loss, refuses=_refuses_total)
    ),
    "reduce_sum": _Api("Torch.sum", refusal=_NO_GRADIENT),
    **{f"reflection_pad{axes}d_backward": _pad("reflect") for axes in (1, 2, 3)},
    **{f"replication_pad{axes}d_backward": _pad("replicate") for axes in (1, 2, 3)},
    "rms_norm_grad": _Api("NPU.npu_rms_norm", refusal=_OF_TORCH_NPU),
    "roi_align_v2_backward": _Api(
        "torchvision.ops.roi_align", refusal="acc_check reports RoI align as passed without computing it."
    ),
    "sigmoid_backward": _of_output("sigmoid", lambda output: np.log(output / (1 - output))),
    "silu_backward": _elementwise("silu"),
    "smooth_l1_loss_backward": _loss("smooth_l1_loss", "beta"),
    "softmax_backward": _of_output(
        "softmax", lambda output: np.log(np.maximum(output, np.finfo(np.float32).tiny)), "dim"
    ),
    "softplus_backward": _elementwise("softplus", "beta", "threshold"),
    "softshrink_backward": _elementwise("softshrink", "lambd"),
    "swi_glu_grad": _Api("NPU.npu_swiglu", refusal=_OF_TORCH_NPU),
    "tanh_backward": _of_output("tanh", np.arctanh),
    "threshold_backward": _Api("Functional.threshold", _threshold),
    "upsample_nearest2d_backward": _Api("Functional.interpolate", _interpolate),
}


def api_of(typed: TypedCase) -> str:
    """Returns the name that msprobe has for the function whose gradient the operator is, or whose value."""
    return _APIS[typed.spec.name].name_of(typed)


def refusal(typed: TypedCase) -> str:
    """Returns why acc_check cannot check the case, or an empty text if it can."""
    read = (
        typed.arguments.inputs[each.name]
        for each in typed.spec.inputs
        if each.name in typed.arguments.inputs and each.unread_on != frozenset(Product)
    )
    if any(0 in each.shape for each in (*read, *typed.outputs.values())):
        return "acc_check compares no empty tensors."
    if "complex" in typed.dtype:
        return "acc_check compares no complex gradients."
    if "int" in typed.dtype:
        return "PyTorch has no gradients of integers."
    if typed.case.shapes.keys() == {"grad_output", "output"} and typed.dtype in ("float16", "bfloat16"):
        return _OF_16_BITS
    api = _APIS[typed.spec.name]
    return api.refusal or api.refuses(typed)


def api_call(typed: TypedCase, arrays: Arrays) -> ApiCall:
    """Returns the call whose backward pass has the gradient of the case with these inputs, if nothing refuses it."""
    api = _APIS[typed.spec.name]
    given = _Given(typed, arrays)
    return ApiCall(api.name_of(typed), api.arguments(given), api.keywords(given), api.grad_output(given))
