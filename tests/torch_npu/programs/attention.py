"""Attention of torch_npu and PyTorch's, which it overrides, with gradients, compared with PyTorch on the CPU.

Prints a line of JSON.
"""

import json
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch_npu
from torch.nn import functional

DTYPES = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""With how far results and gradients may be off, of the largest."""
_CPU = {
    "ones": lambda size, dtype=None, **_: torch.ones(size, dtype=dtype).npu(),
    "triu": lambda mask, diagonal=0: mask.cpu().triu(diagonal).npu(),
    "tril": lambda mask, diagonal=0: mask.cpu().tril(diagonal).npu(),
    "logical_not": lambda mask: mask.cpu().logical_not().npu(),
}
"""What makes masks of PyTorch's attention for the device, by operators that the host library does not have."""
_HERE = torch.library.Library("aten", "IMPL")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for operator, function in _CPU.items():
        _HERE.impl(operator, function, "PrivateUse1")


def heads(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """Returns what is BNSD in another layout."""
    if layout == "BNSD":
        return tensor
    rows = tensor.transpose(1, 2)
    if layout == "BSND":
        return rows.contiguous()
    flat = rows.flatten(2)
    return flat.contiguous() if layout == "BSH" else flat.transpose(0, 1).contiguous()


def differentiated(
    function: Callable[..., torch.Tensor], gradient: torch.Tensor, *tensors: torch.Tensor
) -> list[torch.Tensor]:
    """Returns the result and the gradients of all tensors."""
    leaves = [each.detach().requires_grad_() for each in tensors]
    result = function(*leaves)
    return [result.detach(), *torch.autograd.grad(result, leaves, gradient)]


class Case:
    """A call of so many heads that share keys, queries and keys; `hidden` is true where a key is not seen."""

    def __init__(self, dtype: torch.dtype, shared: int, queries: int, keys: int, size: int, hidden: Any = None) -> None:
        self.hidden = hidden
        self.query, self.gradient = (heads(2, 4, queries, size, dtype=dtype) for _ in range(2))
        self.key, self.value = (heads(2, 4 // shared, keys, size, dtype=dtype) for _ in range(2))
        self.right = differentiated(
            self._of_pytorch, self.gradient.double(), *(each.double() for each in (self.query, self.key, self.value))
        )

    def _of_pytorch(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        mask = None if self.hidden is None else ~self.hidden
        return functional.scaled_dot_product_attention(query, key, value, mask, enable_gqa=True)

    def problem(self, function: Callable[..., torch.Tensor], layout: str = "BNSD") -> str:
        """Returns what is wrong with a function of the device in the layout; empty if nothing is."""
        tensors = [laid_out(each, layout).npu() for each in (self.gradient, self.query, self.key, self.value)]
        try:
            found = [each.cpu() for each in differentiated(function, *tensors)]
        except RuntimeError as error:
            return str(error)[:300]
        limit = DTYPES[self.query.dtype]
        for name, one, truth in zip(("result", "query", "key", "value"), found, self.right, strict=True):
            right = laid_out(truth, layout)
            error = float((one.double() - right).abs().max() / right.abs().max())
            if not (one.shape == right.shape and error <= limit):
                return f"{name} is off by {error:.3g} of the largest"
        return ""


def fused(case: Case, layout: str, **options: Any) -> Callable[..., torch.Tensor]:
    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        scale = case.query.shape[-1] ** -0.5
        result: torch.Tensor = torch_npu.npu_fusion_attention(query, key, value, 4, layout, scale=scale, **options)[0]
        return result

    return attention


def causal(queries: int, keys: int, first: int = 0) -> torch.Tensor:
    return ~torch.ones(queries, keys, dtype=torch.bool).tril(first)


def main() -> dict[str, Any]:
    torch.manual_seed(3)
    triangle = causal(2048, 2048).npu()
    rows: dict[str, str] = {}
    for dtype in DTYPES:
        name = str(dtype).removeprefix("torch.")
        for layout in ("BNSD", "BSND", "BSH", "SBH"):
            plain, mask = Case(dtype, 2, 40, 33, 16), causal(40, 33)
            rows[f"{name} {layout}"] = plain.problem(fused(plain, layout), layout)
            masked = Case(dtype, 1, 40, 33, 16, mask)
            rows[f"{name} {layout} mask"] = masked.problem(fused(masked, layout, atten_mask=mask.npu()), layout)
            for mode, first in ((2, 0), (3, 7)):
                shown = Case(dtype, 1, 40, 40 + first, 16, causal(40, 40 + first, first))
                options = {"atten_mask": triangle, "sparse_mode": mode, "next_tockens": 0}
                rows[f"{name} {layout} mode {mode}"] = shown.problem(fused(shown, layout, **options), layout)
        for what, case, options in (
            ("plain", Case(dtype, 1, 24, 24, 32), {}),
            ("shared", Case(dtype, 2, 24, 17, 32), {"enable_gqa": True}),
            ("causal", Case(dtype, 1, 24, 24, 32, causal(24, 24)), {"is_causal": True}),
            ("mask", Case(dtype, 1, 24, 24, 32, causal(24, 24)), {"attn_mask": (~causal(24, 24)).npu()}),
        ):

            def attention(*tensors: torch.Tensor, options: dict[str, Any] = options) -> torch.Tensor:
                return functional.scaled_dot_product_attention(*tensors, **options)

            rows[f"{name} PyTorch's {what}"] = case.problem(attention)
    return {"rows": len(rows), "wrong": [f"{name}: {each}" for name, each in rows.items() if each]}


print(json.dumps(main()))
