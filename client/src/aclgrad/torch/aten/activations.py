"""Activations that take several steps, and gradients of activations and of softmax."""

from collections.abc import Mapping
from typing import Any, Final

import torch

from aclgrad.operators.families.elementwise.spec import LARGEST
from aclgrad.torch.aten.comparisons import compared, masked
from aclgrad.torch.aten.elements import exponential_of_less, log_of_more
from aclgrad.torch.aten.steps import Number, Row, Steps, Value, along, cast, in_float32

aten: Final = torch.ops.aten


def _elu(steps: Steps, self: Value, alpha: Number = 1, scale: Number = 1, input_scale: Number = 1) -> Value:
    scaled = self if input_scale == 1 else steps("muls", {"self": self}, other=float(input_scale))
    below = steps("muls", {"self": exponential_of_less(steps, scaled)}, other=float(alpha * scale))
    above = self if scale == 1 else steps("muls", {"self": self}, other=float(scale))
    is_above = steps("gt_scalar", {"self": self}, other=0.0)
    return steps("s_where", {"condition": is_above, "self": above, "other": below})


def _softplus(steps: Steps, self: Value, beta: Number = 1, threshold: Number = 20) -> Value:
    scaled = self if beta == 1 else steps("muls", {"self": self}, other=float(beta))
    more = log_of_more(steps, _of_distance(steps, scaled))
    total = steps("add", {"self": steps("relu", {"self": scaled}), "other": more})
    made = total if beta == 1 else steps("divs", {"self": total}, other=float(beta))
    is_linear = compared("gt_scalar")(steps, scaled, float(threshold))
    return steps("s_where", {"condition": is_linear, "self": self, "other": made})


def _of_distance(steps: Steps, self: Value) -> Value:
    """Returns exp(-abs(self)), which is at most 1."""
    return steps("exp", {"self": steps("neg", {"self": steps("abs", {"self": self})})})


def _mish(steps: Steps, self: Value) -> Value:
    return steps("mul", {"self": self, "other": steps("tanh", {"self": _softplus(steps, self)})})


def _hard_sigmoid(steps: Steps, self: Value) -> Value:
    moved = steps("adds", {"self": self}, other=3.0)
    return steps("divs", {"self": steps("clamp", {"self": moved}, clip_value_min=0.0, clip_value_max=6.0)}, other=6.0)


def _log_sigmoid(steps: Steps, self: Value) -> tuple[Value, Value]:
    """Also returns the buffer of PyTorch's gradient."""
    number = cast(steps, self, torch.float32)
    buffer = _of_distance(steps, number)
    below = steps("clamp", {"self": number}, clip_value_max=0.0)
    made = steps("sub", {"self": below, "other": log_of_more(steps, buffer)})
    return cast(steps, made, self.dtype), cast(steps, buffer, self.dtype)


def _log_sigmoid_backward(steps: Steps, grad_output: Value, self: Value, buffer: Value) -> Value:
    # The operator does not read the buffer.
    return steps("log_sigmoid_backward", {"grad_output": grad_output, "self": self, "buffer": self})


def _prelu(steps: Steps, self: Value, weight: Value) -> Value:
    is_above = steps("gt_scalar", {"self": self}, other=0.0)
    below = steps("mul", {"self": self, "other": weight})
    return steps("s_where", {"condition": is_above, "self": self, "other": below})


def _prelu_backward(steps: Steps, grad_output: Value, self: Value, weight: Value) -> tuple[Value, Value]:
    """The gradient of the weight has the shape of self; PyTorch sums it later."""
    is_above = steps("gt_scalar", {"self": self}, other=0.0)
    below, of_weight = (steps("mul", {"self": grad_output, "other": each}) for each in (weight, self))
    gradient = steps("s_where", {"condition": is_above, "self": grad_output, "other": below})
    return gradient, masked(steps, of_weight, is_above, 0)


def _threshold(steps: Steps, self: Value, threshold: Number, value: Number) -> Value:
    return masked(steps, self, compared("le_scalar")(steps, self, threshold), value)


def _glu(steps: Steps, self: Value, dim: int = -1) -> Value:
    half = self.shape[dim] // 2
    gate = steps("sigmoid", {"self": along(self, dim, slice(half, None))})
    return steps("mul", {"self": along(self, dim, slice(half)), "other": gate})


def _of_gradient(operator: str, saved: str = "self", *numbers: str) -> Row:
    """Returns the row of a gradient of the saved tensor and these numbers."""

    def add(steps: Steps, grad_output: Value, self: Value, *given: Number) -> Value:
        attributes = {name: _finite(each) for name, each in zip(numbers, given, strict=True)}
        return steps(operator, {"grad_output": grad_output, saved: self}, **attributes)

    return add


def _finite(number: Number) -> float:
    """Returns finite bounds that no float32 exceeds."""
    return min(max(float(number), -LARGEST), LARGEST)


def _gelu_backward(steps: Steps, grad_output: Value, self: Value, approximate: str = "none") -> Value:
    return steps("gelu_backward_v2", {"grad_output": grad_output, "self": self}, approximate=approximate)


def _leaky_relu_backward(
    steps: Steps, grad_output: Value, self: Value, negative_slope: Number, self_is_result: bool
) -> Value:
    inputs = {"grad_output": grad_output, "self": self}
    return steps("leaky_relu_backward", inputs, negative_slope=float(negative_slope), self_is_result=self_is_result)


def _elu_backward(
    steps: Steps,
    grad_output: Value,
    alpha: Number,
    scale: Number,
    input_scale: Number,
    is_result: bool,
    self_or_result: Value,
) -> Value:
    numbers = {"alpha": float(alpha), "scale": float(scale), "input_scale": float(input_scale)}
    inputs = {"grad_output": grad_output, "self_or_result": self_or_result}
    return steps("elu_backward", inputs, is_result=is_result, **numbers)


def _glu_backward(steps: Steps, grad_output: Value, self: Value, dim: int) -> Value:
    return steps("glu_backward", {"grad_output": grad_output, "self": self}, dim=dim)


def _softmax_backward(operator: str) -> Row:
    def add(steps: Steps, grad_output: Value, output: Value, dim: int, input_dtype: torch.dtype) -> Value:
        made = steps(operator, {"grad_output": grad_output, "output": output}, dim=dim)
        return cast(steps, made, input_dtype)

    return add


ROWS: Final[Mapping[Any, Row]] = {
    aten.threshold.default: _threshold,
    aten.glu.default: _glu,
    aten.elu.default: in_float32(_elu),
    aten.softplus.default: in_float32(_softplus),
    aten.mish.default: in_float32(_mish),
    aten.hardsigmoid.default: in_float32(_hard_sigmoid),
    aten.log_sigmoid_forward.default: _log_sigmoid,
    aten.log_sigmoid_backward.default: _log_sigmoid_backward,
    aten._prelu_kernel.default: _prelu,  # noqa: SLF001 - ATen's name
    aten._prelu_kernel_backward.default: _prelu_backward,  # noqa: SLF001
    aten.threshold_backward.default: _of_gradient("threshold_backward", "self", "threshold"),
    aten.gelu_backward.default: _gelu_backward,
    aten.sigmoid_backward.default: _of_gradient("sigmoid_backward", "output"),
    aten.tanh_backward.default: _of_gradient("tanh_backward", "output"),
    aten.hardtanh_backward.default: _of_gradient("hardtanh_backward", "self", "min", "max"),
    aten.softplus_backward.default: _of_gradient("softplus_backward", "self", "beta", "threshold"),
    **{
        getattr(aten, f"{name}_backward").default: _of_gradient(f"{name}_backward", "self", "lambd")
        for name in ("hardshrink", "softshrink")
    },
    **{
        getattr(aten, f"{name}_backward").default: _of_gradient(f"{name}_backward")
        for name in ("silu", "hardswish", "hardsigmoid", "mish")
    },
    aten.leaky_relu_backward.default: _leaky_relu_backward,
    aten.elu_backward.default: _elu_backward,
    aten.glu_backward.default: _glu_backward,
    aten._softmax_backward_data.default: _softmax_backward("softmax_backward"),  # noqa: SLF001 - ATen's name
    aten._log_softmax_backward_data.default: _softmax_backward("log_softmax_backward"),  # noqa: SLF001
}
