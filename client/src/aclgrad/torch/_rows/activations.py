"""Activations: functions of each element, and softmax along an axis."""

from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.torch._folding import fold_elements, fold_into_leading_axes
from aclgrad.torch._rows.row import Known, Operation

aten: Final = torch.ops.aten
_OF_OUTPUT: Final[Known] = {"more": lambda _, output: {"output": output}, "saved": lambda _: ("output",)}


def _elementwise(name: str, parameters: str = "", **options: Any) -> Operation:
    options = {"operator": f"{name}_backward", "forward": getattr(aten, name), **options}
    options.setdefault("local", getattr(aten, options["operator"], None))
    return Operation(name, parameters=f"Tensor input{parameters}", is_linear=False, fold=fold_elements, **options)


def _softmax(name: str) -> Operation:
    """The axis counts from the last, so that those which vmap adds in front change nothing."""
    forward = getattr(aten, f"_{name}")
    return Operation(
        name,
        f"{name}_backward",
        "Tensor input, int dim",
        lambda input, dim: forward(input, dim, False),
        is_linear=False,
        # The function itself casts: it has the dtype that a user gave.
        cast_by=lambda input, _: input,
        fold=fold_into_leading_axes,
        **_OF_OUTPUT,
    )


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


def _swiglu(x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    result: Tensor = aten.silu(a) * b
    return result


def _swiglu_backward(grad_output: Tensor, x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    return torch.cat([_silu_backward(grad_output * b, a), grad_output * aten.silu(a)], dim)


ROWS: Final = (
    _elementwise("gelu", ", str approximate", operator="gelu_backward_v2", forward=_gelu, local=_gelu_backward),
    _elementwise("hardswish"),
    _elementwise("leaky_relu", ", float negative_slope"),
    _elementwise(
        "relu",
        operator="threshold_backward",
        # PyTorch, too, keeps the result alone.
        more=lambda _, output: {"input": output, "threshold": 0.0},
    ),
    _elementwise("sigmoid", **_OF_OUTPUT),
    _elementwise("silu", local=_silu_backward),
    Operation(
        "swiglu",
        "swi_glu_grad",
        "Tensor x, int dim",
        _swiglu,
        saved=lambda _: ("x",),
        is_linear=False,
        local=_swiglu_backward,
        fold=fold_elements,
    ),
    _elementwise("tanh", **_OF_OUTPUT),
    _elementwise("threshold", ", float threshold, float value"),
    _softmax("softmax"),
    _softmax("log_softmax"),
)
