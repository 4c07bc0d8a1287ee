"""The ten steps by PyTorch in this process, under the names of the client's methods."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch

from tools.benchmarks.ten_steps import Net

_ATEN: Final = torch.ops.aten
_EPS: Final = 1e-5


def local_net(net: Net) -> Net:
    """Returns the net with its arrays as tensors; indices in 64 bits, as PyTorch needs them."""
    local = Net.__new__(Net)
    for name, value in vars(net).items():
        tensor = torch.from_numpy(np.ascontiguousarray(value))
        setattr(local, name, tensor.long() if tensor.dtype == torch.int32 else tensor)
    return local


class Local:
    """Computes each step at once; the shapes of inputs are as the client takes them."""

    def adaptive_avg_pool2d_backward(self, grad: Any, shape: Sequence[int]) -> Any:
        return _ATEN._adaptive_avg_pool2d_backward(grad, grad.new_empty(shape))  # noqa: SLF001 - PyTorch's name

    def softmax_backward(self, grad: Any, output: Any, dim: int) -> Any:
        return _ATEN._softmax_backward_data(grad, output, dim, grad.dtype)  # noqa: SLF001 - PyTorch's name

    def tanh_backward(self, grad: Any, output: Any) -> Any:
        return _ATEN.tanh_backward(grad, output)

    def layer_norm_backward(
        self, grad: Any, input: Any, mean: Any, rstd: Any, normalized: Sequence[int], weight: Any, bias: Sequence[int]
    ) -> Any:
        made = _ATEN.native_layer_norm_backward(
            grad, input, normalized, mean, rstd, weight, grad.new_empty(bias), [True] * 3
        )
        return SimpleNamespace(grad_input=made[0], grad_weight=made[1], grad_bias=made[2])

    def max_pool2d_with_indices_backward(
        self, grad: Any, shape: Sequence[int], indices: Any, kernel_size: Sequence[int]
    ) -> Any:
        lists = (kernel_size, kernel_size, [0, 0], [1, 1], False)
        return _ATEN.max_pool2d_with_indices_backward(grad, grad.new_empty(shape), *lists, indices)

    def silu_backward(self, grad: Any, input: Any) -> Any:
        return _ATEN.silu_backward(grad, input)

    def batch_norm_backward(
        self, grad: Any, input: Any, training: bool, weight: Any, save_mean: Any, save_invstd: Any
    ) -> Any:
        made = _ATEN.native_batch_norm_backward(
            grad, input, weight, None, None, save_mean, save_invstd, training, _EPS, [True] * 3
        )
        return SimpleNamespace(grad_input=made[0], grad_weight=made[1], grad_bias=made[2])

    def avg_pool2d_backward(self, grad: Any, shape: Sequence[int], kernel_size: Sequence[int]) -> Any:
        return _ATEN.avg_pool2d_backward(
            grad, grad.new_empty(shape), kernel_size, kernel_size, [0, 0], False, True, None
        )

    def gelu_backward_v2(self, grad: Any, input: Any) -> Any:
        return _ATEN.gelu_backward(grad, input)

    def reflection_pad2d_backward(self, grad: Any, shape: Sequence[int], padding: Sequence[int]) -> Any:
        return _ATEN.reflection_pad2d_backward(grad, grad.new_empty(shape), padding)
