"""The rows of activations: PyTorch's element-wise functions, their gradients, and the gradients of those."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.bridges.rows import ROWS
from aclgrad.torch._row import Operation

aten: Final = torch.ops.aten


def _gelu(input: Tensor, approximate: str) -> Tensor:
    result: Tensor = aten.gelu(input, approximate=approximate)
    return result


def _gelu_backward(grad_output: Tensor, input: Tensor, approximate: str) -> Tensor:
    gradient: Tensor = aten.gelu_backward(grad_output, input, approximate=approximate)
    return gradient


def _silu_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Is differentiable, unlike PyTorch's own."""
    sigmoid = aten.sigmoid(input)
    gradient: Tensor = grad_output * sigmoid * (1 + input * (1 - sigmoid))
    return gradient


def _mish_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Is differentiable, unlike PyTorch's own."""
    tangent = aten.tanh(aten.softplus(input))
    gradient: Tensor = grad_output * (tangent + input * aten.sigmoid(input) * (1 - tangent * tangent))
    return gradient


def _swiglu(x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    result: Tensor = aten.silu(a) * b
    return result


def _swiglu_backward(grad_output: Tensor, x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    return torch.cat([_silu_backward(grad_output * b, a), grad_output * aten.silu(a)], dim)


def _elu_backward(grad_output: Tensor, input: Tensor, *factors: Any) -> Tensor:
    gradient: Tensor = aten.elu_backward(grad_output, *factors, input)
    return gradient


def per_channel(weight: Tensor, input: Tensor) -> Tensor:
    """Returns the view of PReLU's weight by which PyTorch multiplies the input."""
    return weight.reshape([-1 if axis == 1 else 1 for axis in range(input.dim())])


def _prelu(input: Tensor, weight: Tensor) -> Tensor:
    kernel = "_prelu_kernel"
    result: Tensor = getattr(aten, kernel)(input, weight)
    return result


def _prelu_backward(grad_output: Tensor, input: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Is differentiable, unlike PyTorch's own."""
    is_above, slope = input > 0, per_channel(weight, input)
    of_slope = torch.where(is_above, 0, input * grad_output)
    return torch.where(is_above, grad_output, slope * grad_output), of_slope.sum_to_size(slope.shape).reshape(-1)


def _elementwise(
    name: str, parameters: str = "", forward: Callable[..., Any] | None = None, **options: Any
) -> Operation:
    options = {"forward": forward or getattr(aten, name), "local": getattr(aten, ROWS[name].operator, None), **options}
    return Operation(name, f"Tensor input{parameters}", **options)


def _exponential(name: str, parameters: str = "") -> Operation:
    return _elementwise(name, parameters, saved=lambda _: ("self_or_result",), local=_elu_backward)


def _softmax(name: str, last: bool | None = False) -> Operation:
    forward = getattr(aten, f"_{name}")
    return Operation(
        name,
        "Tensor input, int dim",
        lambda input, dim: forward(input, dim, last),
        saved=lambda _: ("output",),
        # The function itself casts to the user's dtype.
        cast_by=lambda input, _: input,
    )


ACTIVATIONS: Final[Sequence[Operation]] = (
    _exponential("celu", ", float alpha"),
    _exponential("elu", ", float alpha"),
    _elementwise("gelu", ", str approximate", forward=_gelu, local=_gelu_backward),
    _elementwise("glu", ", int dim", cast_by=lambda input, _: aten.glu(input.new_empty(0))),
    _elementwise("hardshrink", ", float lambd"),
    _elementwise("hardsigmoid"),
    _elementwise("hardswish"),
    _elementwise("hardtanh", ", float min, float max"),
    _elementwise("leaky_relu", ", float negative_slope"),
    _elementwise(
        "logsigmoid", forward=aten.log_sigmoid_forward, saved=lambda _: ("input", "buffer"), returns="(Tensor, Tensor)"
    ),
    _elementwise("mish", local=_mish_backward),
    Operation(
        "prelu",
        "Tensor input, Tensor weight",
        _prelu,
        saved=lambda _: ("input", "weight"),
        # PyTorch multiplies by a view of it.
        prepared=lambda known: {"weight": known["weight"].reshape(-1)},
        local=_prelu_backward,
        cast_by=lambda input, _: torch.prelu(input.new_empty(0), input.new_empty(1)),
    ),
    _elementwise("relu"),
    _elementwise("relu6"),
    _exponential("selu"),
    _elementwise("sigmoid", saved=lambda _: ("output",)),
    _elementwise("silu", local=_silu_backward),
    _elementwise("softplus", ", float beta, float threshold"),
    _elementwise("softshrink", ", float lambd"),
    Operation("swiglu", "Tensor x, int dim", _swiglu, saved=lambda _: ("x",), local=_swiglu_backward),
    _elementwise("tanh", saved=lambda _: ("output",)),
    _elementwise("threshold", ", float threshold, float value"),
    *(_softmax(name) for name in ("softmax", "log_softmax")),
    _softmax("safe_softmax", None),
)
"""In the order of their names."""
