"""Products as a card computes them that rounds float32 operands: in HF32, or in float16.

Convolutions of float32 are HF32 by default on the Atlas A2 and later, and products are float16 on the 310P and the
910A (torch_npu's allow_hf32 and cubeMathType). Sums stay float32. The 310P and the 910A also spread the gradients of
averages by products.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from aclgrad.operators.routes import FLOAT16

aten: Final = torch.ops.aten
_HF32_BITS: Final = 12
"""The bits of float32's mantissa that HF32 lacks: it has 11 of 23, and rounds to the nearest, ties to even."""


def to_hf32(tensor: Tensor) -> Tensor:
    """Returns the elements rounded to HF32, in the tensor's own dtype."""
    bits = tensor.to(torch.float32).contiguous().view(torch.int32)
    half = (1 << (_HF32_BITS - 1)) - 1
    rounded = (bits + half + ((bits >> _HF32_BITS) & 1)) & ~((1 << _HF32_BITS) - 1)
    wide = rounded.view(torch.float32).to(tensor.dtype)
    return torch.where(tensor.isfinite(), wide, tensor)


def to_float16(tensor: Tensor) -> Tensor:
    """Returns the elements rounded to float16, in the tensor's own dtype; large ones become infinite."""
    return tensor.to(torch.float16).to(tensor.dtype)


ROUNDINGS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = {"hf32": to_hf32, "float16": to_float16}
SETTINGS: Final[Mapping[str, str]] = {
    "hf32": "as in HF32; torch.npu.conv.allow_hf32 = False and torch.npu.matmul.allow_hf32 = False change it, "
    "but not on the 310P and the 910A, whose products are float16",
    "float16": "as in float16: the 310P and the 910A have no other products",
}
POOLED: Final = frozenset({"avg_pool2d", "adaptive_avg_pool2d"})
"""Functions whose gradient is a convolution, or a product with a matrix for each axis, on the 310P and the 910A."""
OF_TERMS: Final = (1 + FLOAT16.unit) ** 3 - 1
"""How wrong a term of it may be: a convolution rounds value, weight and sum, matrices the value and two sums."""
_OPERANDS: Final[Mapping[Any, tuple[int, ...]]] = {
    aten.mm.default: (0, 1),
    aten.bmm.default: (0, 1),
    aten.mv.default: (0, 1),
    aten.dot.default: (0, 1),
    aten.vdot.default: (0, 1),
    aten.addmm.default: (1, 2),
    aten.addmv.default: (1, 2),
    aten.addbmm.default: (1, 2),
    aten.baddbmm.default: (1, 2),
    aten.convolution.default: (0, 1),
    aten._convolution.default: (0, 1),  # noqa: SLF001
}
"""The products among PyTorch's operators, and which of their arguments are operands."""


class RoundedProducts(TorchDispatchMode):
    """Within the block, the operands of products are rounded, in forward and backward passes."""

    def __init__(self, rounding: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self._rounding = rounding

    def __torch_dispatch__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if function is aten.convolution_backward.default:
            return self._convolution_backward(*args, **options)
        operands = _OPERANDS.get(function, ())
        rounded = [self._rounding(each) if index in operands else each for index, each in enumerate(args)]
        return function(*rounded, **options)

    def _convolution_backward(self, gradient: Tensor, input: Tensor, weight: Tensor, *rest: Any) -> Any:
        """Rounds the operands of both products; the gradient of the bias is a sum, and no product."""
        *settings, mask = rest
        rounded = map(self._rounding, (gradient, input, weight))
        of_products = aten.convolution_backward.default(*rounded, *settings, [*mask[:2], False])
        bias = gradient.sum([axis for axis in range(gradient.dim()) if axis != 1]) if mask[2] else None
        return (*of_products[:2], bias)
