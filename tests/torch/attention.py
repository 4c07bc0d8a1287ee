"""Calls of attention: those of PyTorch's own kernel, and those of its math path."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .table import HALVES, grad_output_of, random

GRADIENTS, OF_BIAS = "flash_attention_score_grad", "flash_attention_score_grad_v2"
MATH = ["matmul_backward", "softmax_backward", "matmul_backward"]
LOWER, SOME = torch.ones(5, 7).tril().bool(), random(2, 3, 5, 7, seed=8) > -0.5
BIAS = random(2, 3, 5, 7, seed=9)
EMPTY = SOME.index_fill(2, torch.tensor([1, 3]), 0)
"""Two rows see no key."""


def operands(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [random(*shape, seed=seed).to(dtype) for seed, shape in enumerate(shapes)]


PLAIN = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 8))
GROUPS = ((2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 8))
KERNEL: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any], str]] = {
    "plain": (PLAIN, {}, GRADIENTS),
    "causal": (PLAIN, {"is_causal": True}, GRADIENTS),
    "causal of equal lengths": (((2, 3, 5, 8),) * 3, {"is_causal": True}, GRADIENTS),
    "scale": (PLAIN, {"scale": 0.7}, GRADIENTS),
    "one of each": (((1, 1, 1, 1),) * 3, {}, GRADIENTS),
    "groups": (GROUPS, {"enable_gqa": True}, GRADIENTS),
    "groups, causal": (GROUPS, {"enable_gqa": True, "is_causal": True}, GRADIENTS),
    "mask of positions": (PLAIN, {"attn_mask": LOWER}, GRADIENTS),
    "mask of all": (PLAIN, {"attn_mask": SOME}, GRADIENTS),
    "mask of sequences": (PLAIN, {"attn_mask": SOME[:, :1]}, GRADIENTS),
    "mask of keys": (PLAIN, {"attn_mask": SOME[:, :1, 2:3]}, GRADIENTS),
    "mask of one key": (PLAIN, {"attn_mask": LOWER[:, :1]}, GRADIENTS),
    "mask of heads": (PLAIN, {"attn_mask": SOME[:1]}, GRADIENTS),
    "mask of one sequence": (PLAIN, {"attn_mask": SOME[:1, :1]}, GRADIENTS),
    "mask of queries": (PLAIN, {"attn_mask": SOME[:, :1, :, 2:3]}, GRADIENTS),
    "rows without keys": (PLAIN, {"attn_mask": EMPTY}, GRADIENTS),
    "mask and causal": (PLAIN, {"attn_mask": SOME, "is_causal": True}, GRADIENTS),
    "bias of all": (PLAIN, {"attn_mask": BIAS}, OF_BIAS),
    "bias of positions": (PLAIN, {"attn_mask": BIAS[0, 0]}, OF_BIAS),
    "bias of heads": (PLAIN, {"attn_mask": BIAS[:1]}, OF_BIAS),
    "bias of keys": (PLAIN, {"attn_mask": BIAS[:, :1, :1]}, OF_BIAS),
    "bias of queries": (PLAIN, {"attn_mask": BIAS[:, :1, :, :1]}, OF_BIAS),
    "bias of one sequence": (PLAIN, {"attn_mask": BIAS[:1, :1, :1]}, OF_BIAS),
    "bias of minus infinity": (PLAIN, {"attn_mask": torch.zeros(5, 7).masked_fill(~EMPTY[0, 0], -torch.inf)}, OF_BIAS),
    "bias and causal": (PLAIN, {"attn_mask": BIAS, "is_causal": True, "scale": 0.4}, OF_BIAS),
    "bias and groups": (GROUPS, {"attn_mask": BIAS[0, 0], "enable_gqa": True}, OF_BIAS),
}
"""Calls of PyTorch's own kernel: shapes, options, and the operator of their gradients."""
WIDE = ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 12))
IN_PARTS: dict[str, tuple[tuple[tuple[int, ...], ...], dict[str, Any], str]] = {
    "wide values": (WIDE, {}, "heads have 8, 8 and 12 elements"),
    "narrow values": (((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 4)), {"is_causal": True}, "heads have"),
    "three axes": (((2, 5, 8), (2, 7, 8), (2, 7, 8)), {"attn_mask": LOWER}, "the tensors have 3 axes"),
    "five axes": (((2, 1, 3, 5, 8), (2, 1, 3, 7, 8), (2, 1, 3, 7, 8)), {"scale": -0.5}, "the tensors have 5 axes"),
    "two axes": (((5, 8), (7, 8), (7, 8)), {}, "the tensors have 2 axes"),
    "dropout": (PLAIN, {"dropout_p": 0.3}, "dropout_p is not 0"),
    "dropout of all": (PLAIN, {"dropout_p": 1.0}, "dropout_p is not 0"),
    "dropout and a mask": (PLAIN, {"dropout_p": 0.3, "attn_mask": EMPTY}, "dropout_p is not 0"),
    "dropout and groups": (GROUPS, {"dropout_p": 0.3, "enable_gqa": True}, "dropout_p is not 0"),
    "a batch that broadcasts": (((2, 3, 5, 8), (1, 3, 7, 8), (1, 3, 7, 8)), {}, "PyTorch takes its math path"),
    "mask of three axes": (PLAIN, {"attn_mask": SOME[0]}, "PyTorch takes its math path"),
}
"""Calls of PyTorch's math path: shapes, options, and what the account says."""


def step(given: list[Tensor], **options: Any) -> list[Tensor]:
    """Returns the output and the gradients, with the numbers that PyTorch draws from the same seed."""
    torch.manual_seed(4)
    leaves = [each.clone().requires_grad_() for each in given]
    output = functional.scaled_dot_product_attention(*leaves, **options)
    output.backward(grad_output_of(output))
    return [output.detach(), *(each.grad for each in leaves)]


def in_dtype(options: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    """Returns the options with masks of numbers in the dtype."""
    return {
        name: each.to(dtype) if isinstance(each, Tensor) and each.is_floating_point() else each
        for name, each in options.items()
    }


def wide(given: list[Tensor], **options: Any) -> list[Tensor]:
    return step([each.double() for each in given], **in_dtype(options, torch.float64))


def close(found: list[Tensor], expected: list[Tensor], dtype: torch.dtype = torch.float32) -> None:
    """The outputs have the same bits, the gradients values near those of float64."""
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0)
    error = HALVES.get(dtype, 1e-5)
    for one, other in zip(found[1:], expected[1:], strict=True):
        assert one.dtype == dtype
        torch.testing.assert_close(one, other, rtol=error, atol=error * float(other.abs().max() + 1))
