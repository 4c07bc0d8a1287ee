"""Functions that are sums of products: the sums of their |terms|, and their results with rounded operands.

The gradients of such a function are also sums of products, so its backward pass of absolute values gives the sums of
their |terms|. Cards round float32 operands to HF32, or to float16. Convolutions of float32 are HF32 by default on the
Atlas A2 and later, and products are float16 on the 310P and the 910A (torch_npu's allow_hf32 and cubeMathType). Sums
stay float32. The 310P and the 910A also spread the gradients of averages by products.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from aclgrad.operators.routes import FLOAT16

_PRODUCTS: Final = (
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "conv_tbc", "linear"),
    *("convolution", "_convolution", "convolution_transpose", "convolution_backward"),
    *("bilinear", "matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "mv", "dot", "inner", "outer"),
    *("ger", "vdot", "addmm", "addmv", "addbmm", "baddbmm", "addr", "einsum", "tensordot", "chain_matmul", "kron"),
    *("multi_dot", "vecdot"),
)
_SUMS: Final = (
    *("sum", "nansum", "mean", "nanmean", "cumsum", "trace", "embedding", "embedding_bag", "index_add", "index_put"),
    *("scatter_add", "scatter_reduce", "gather", "index_select", "__getitem__", "take", "take_along_dim", "expand"),
    *("expand_as", "repeat", "repeat_interleave", "tile", "avg_pool1d", "avg_pool2d", "avg_pool3d", "unfold", "fold"),
    *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "interpolate", "upsample", "pad"),
    *("upsample_nearest", "upsample_bilinear", "grid_sample", "broadcast_to", "stack", "cat", "masked_select", "where"),
    *("prod", "cumprod", "roi_align"),
)
_ARITHMETIC: Final = (
    *("add", "mul", "div", "true_divide", "multiply", "divide", "neg", "negative", "square", "reciprocal", "addcmul"),
    *("addcdiv", "__add__", "__radd__", "__iadd__", "__mul__", "__rmul__", "__imul__", "__truediv__", "__itruediv__"),
    *("__rtruediv__", "__rdiv__", "__div__", "__idiv__", "__neg__", "float_power"),
)
_DIFFERENCES: Final[Mapping[str, Callable[..., Any]]] = {
    **dict.fromkeys(("sub", "subtract"), torch.add),
    "__sub__": Tensor.__add__,
    "__isub__": Tensor.__iadd__,
    "__rsub__": lambda input, other: other + input,
    "rsub": lambda input, other, alpha=1: other + alpha * input,
}
"""Sums the terms of a difference."""


def _of_rows(input: Tensor, axis: int) -> Tensor:
    """Returns the terms of a log probability: the element, and the largest of its row."""
    return input.abs() + input.abs().amax(axis, keepdim=True) if input.numel() else input.abs()


def _log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    return _of_rows(input, -1 if dim is None else dim)


def _logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    return 2 * input.abs().amax(dim, keepdim=keepdim)


def _cross_entropy(input: Tensor, target: Tensor, *args: Any, **options: Any) -> Tensor:
    """Returns twice the largest logit, for each loss or for the sum of all."""
    loss = functional.cross_entropy(input, target, *args, **options)
    reduction = next((each for each in (*args, options.get("reduction")) if isinstance(each, str)), "mean")
    count = input.numel() / input.shape[min(1, input.dim() - 1)] if reduction == "sum" and input.numel() else 1
    return torch.full_like(loss, 2 * float(input.abs().max()) * count) if input.numel() else loss


def _kl_div(input: Tensor, target: Tensor, *args: Any, **options: Any) -> Tensor:
    log_target = options.get("log_target", False)
    weights = target.exp() if log_target else target
    logarithms = target if log_target else target.clamp(min=1e-300).log()
    # A divergence of 0 from e^-x is x, so the loss function itself sums the terms.
    terms = weights * (input.abs() + logarithms.abs())
    reduced = {name: each for name, each in options.items() if name != "log_target"}
    return functional.kl_div(-terms, torch.ones_like(terms), *args, **reduced)


TERMS_OF_OUTPUTS: Final[Mapping[str, Callable[..., Any]]] = {
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "cross_entropy": _cross_entropy,
    "kl_div": _kl_div,
}
"""Functions whose results are small differences of larger terms, with functions of these terms."""


def _base(name: str) -> str:
    """Returns the name of the out-of-place function, and PyTorch's name for torch_npu's."""
    own = name.removeprefix("npu_")
    return own if own.startswith("__") else own.rstrip("_")


def function_of_terms(name: str, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Returns the function for the sums of |terms| of the function of this name; None if unknown."""
    base = _base(name)
    if base in _DIFFERENCES:
        return _DIFFERENCES[base]
    return function if base in _KNOWN else None


_KNOWN: Final = frozenset((*_PRODUCTS, *_SUMS, *_ARITHMETIC))


def is_product(name: str) -> bool:
    """Returns whether a card may round the operands of this function: a convolution, a product or an attention."""
    return _base(name) in _ROUNDED


_ROUNDED: Final = frozenset(
    (*_PRODUCTS, "scaled_dot_product_attention", "multi_head_attention_forward", "lstm", "gru", "rnn_tanh", "rnn_relu")
)


def absolute_number(name: str) -> Callable[[Any], Any]:
    """Returns how plain numbers among the arguments change: those of arithmetic are terms, too."""
    base = _base(name)
    return abs if base in _ARITHMETIC or base in _DIFFERENCES else lambda number: number


aten: Final = torch.ops.aten
_HF32_BITS: Final = 12
"""The bits of float32's mantissa that HF32 lacks: it has 11 of 23, rounded to nearest, ties to even."""


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
"""Functions whose gradient on the 310P and the 910A is a convolution, or a product with a matrix for each axis."""
OF_TERMS: Final = (1 + FLOAT16.unit) ** 3 - 1
"""The error of a term: a convolution rounds value, weight and sum, matrices the value and two sums."""
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
"""The products among PyTorch's operators, and the positions of their operands."""


class RoundedProducts(TorchDispatchMode):
    """Rounds the operands of products within the block, in forward and backward passes."""

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
        """Rounds the operands of both products; the gradient of the bias is a sum."""
        *settings, mask = rest
        rounded = map(self._rounding, (gradient, input, weight))
        of_products = aten.convolution_backward.default(*rounded, *settings, [*mask[:2], False])
        bias = gradient.sum([axis for axis in range(gradient.dim()) if axis != 1]) if mask[2] else None
        return (*of_products[:2], bias)
