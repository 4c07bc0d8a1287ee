"""Functions and gradients that PyTorch lacks in the form that the operators need."""

from typing import Final

import torch
from torch import Tensor

aten: Final = torch.ops.aten


def gelu(input: Tensor, approximate: str) -> Tensor:
    result: Tensor = aten.gelu(input, approximate=approximate)
    return result


def gelu_backward(grad_output: Tensor, input: Tensor, approximate: str) -> Tensor:
    gradient: Tensor = aten.gelu_backward(grad_output, input, approximate=approximate)
    return gradient


def silu_backward(grad_output: Tensor, input: Tensor) -> Tensor:
    """Is differentiable, unlike PyTorch's own."""
    sigmoid = aten.sigmoid(input)
    gradient: Tensor = grad_output * sigmoid * (1 + input * (1 - sigmoid))
    return gradient


def swiglu(x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    result: Tensor = aten.silu(a) * b
    return result


def swiglu_backward(grad_output: Tensor, x: Tensor, dim: int) -> Tensor:
    a, b = aten.chunk(x, 2, dim)
    return torch.cat([silu_backward(grad_output * b, a), grad_output * aten.silu(a)], dim)
