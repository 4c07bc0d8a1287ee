"""Attention: PyTorch's own kernel with gradients of one operator, or its math path as products and a softmax."""

import math
from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend

from aclgrad._client.sync.client import Client
from aclgrad.torch._account import LocalError, as_part_of
from aclgrad.torch._attention_gradients import FUNCTION, Attention
from aclgrad.torch._dropout import dropout
from aclgrad.torch._operations import without_autocast
from aclgrad.torch._products import matmul
from aclgrad.torch._run import applied, cast_alike, run


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    client: Client,
) -> Tensor:
    """Weighs values by the softmax of `scale * query @ key.T`, as `torch.nn.functional.scaled_dot_product_attention`.

    Where PyTorch takes its own kernel, one call of the client's server has all gradients, without second derivatives.
    Where it takes its math path, gradients are those of products, softmax and dropout. Raises InvalidFieldError if
    the server's product cannot compute it.
    """
    if scale is not None:
        scale = float(scale)
    query, key, value = cast_alike(functional.scaled_dot_product_attention, query, key, value)
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            # PyTorch's node saves it in this form.
            added = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(attn_mask.logical_not(), -torch.inf)
        elif attn_mask.is_floating_point():
            if attn_mask.dtype == torch.float64 and query.dtype != torch.float64:
                raise LocalError("PyTorch refuses a float64 mask of other queries")
            added = attn_mask.to(query.dtype) if _is_cast(query) else attn_mask
        else:
            raise LocalError("PyTorch refuses a mask that is neither bool nor of floating-point numbers")
    else:
        added = None
    if query.dtype not in _DTYPES:
        raise LocalError(f"no product takes {str(query.dtype).removeprefix('torch.')}")
    if dropout_p < 0:
        raise LocalError("PyTorch refuses a negative dropout_p")
    because = _why_math(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
    if because:
        with without_autocast(query.device.type), as_part_of(FUNCTION, because):
            return _math(query, key, value, added, dropout_p, is_causal, scale, enable_gqa, client)
    if added is not None and added.dtype != query.dtype:
        raise LocalError(f"the mask is {added.dtype}, and cards add it in the query's dtype".replace("torch.", ""))
    is_bool = attn_mask is not None and attn_mask.dtype == torch.bool
    result: Tensor = applied(Attention, client, query, key, value, added, is_bool, is_causal, scale)[0]
    return result


_DTYPES: Final = (torch.float32, torch.float16, torch.bfloat16)


def _is_cast(query: Tensor) -> bool:
    device = query.device.type
    return bool(torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))


def _wants_gradient(mask: Tensor) -> bool:
    if torch.compiler.is_compiling():
        return bool(mask.requires_grad)
    while not mask.requires_grad:
        if not torch._C._functorch.is_functorch_wrapped_tensor(mask):  # noqa: SLF001 - as in _mode
            return False
        mask = torch._C._functorch.get_unwrapped(mask)  # noqa: SLF001
    return True


def _why_math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> str:
    """Returns why PyTorch takes its math path; empty if it takes its CPU kernel."""
    ranks = {each.dim() for each in (query, key, value)}
    if attn_mask is not None and _wants_gradient(attn_mask):
        return "the mask wants a gradient"
    if dropout_p > 0:
        return "dropout_p is not 0"
    if ranks != {4}:
        return f"the tensors have {' and '.join(map(str, sorted(ranks)))} axes"
    if not query.shape[-1] == key.shape[-1] == value.shape[-1]:
        return f"heads have {query.shape[-1]}, {key.shape[-1]} and {value.shape[-1]} elements"
    if query.device.type != "cpu":
        return f"the tensors are on a device of the type {query.device.type}"
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is not None:  # noqa: SLF001
        # Neither knows PyTorch's choice.
        is_own = query.shape[0] == key.shape[0] == value.shape[0] and key.shape[:3] == value.shape[:3]
        is_own = is_own and (query.shape[1] == key.shape[1] or enable_gqa)
        is_own = is_own and (attn_mask is None or attn_mask.dim() in (2, 4))
        return "" if is_own else _CHOICE
    options = {"scale": scale, "enable_gqa": enable_gqa}
    choice = "_fused_sdp_choice"
    backend = getattr(torch, choice)(query, key, value, attn_mask, dropout_p, is_causal, **options)
    return "" if backend == SDPBackend.FLASH_ATTENTION.value else _CHOICE


_CHOICE: Final = "PyTorch takes its math path for such sizes, strides or settings"


@torch.compiler.assume_constant_result
def _keeps_halves() -> bool:
    """Whether PyTorch's math path computes 16 bits in 16 bits."""
    return bool(torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed())


def _math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    added: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
    client: Client,
) -> Tensor:
    """Follows PyTorch step by step, for the same results and random numbers."""
    dtype = query.dtype
    if dtype != torch.float32 and not _keeps_halves():
        query, key, value = query.float(), key.float(), value.float()
    if is_causal:
        if added is not None:
            raise LocalError("PyTorch refuses both a mask and is_causal")
        allowed = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        added = torch.zeros_like(allowed, dtype=query.dtype).masked_fill_(allowed.logical_not(), -torch.inf)
    if enable_gqa:
        if not key.shape[-3] or query.shape[-3] % key.shape[-3] or key.shape[-3] != value.shape[-3]:
            raise LocalError("PyTorch refuses heads that do not divide")
        repeats = query.shape[-3] // key.shape[-3]
        if repeats > 1:
            key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
    root = math.sqrt(abs(scale) if scale is not None else 1 / math.sqrt(query.shape[-1] or 1))
    scaled = query * (-root if scale is not None and scale < 0 else root)
    scores = matmul(scaled, key.transpose(-2, -1) * root, client=client)
    if added is not None:
        if torch.broadcast_shapes(added.shape, scores.shape) != scores.shape:
            raise LocalError("PyTorch refuses a mask of this shape")
        scores = scores + added.to(scores.dtype)
    weights = run("safe_softmax", client, scores, -1)
    if dropout_p > 0:
        weights = dropout(weights, dropout_p, client=client)
    return matmul(weights, value, client=client).to(dtype)


REROUTED: Final[dict[Any, Callable[..., Tensor]]] = {
    functional.scaled_dot_product_attention: scaled_dot_product_attention,
}
"""Our functions by the functions of PyTorch that they replace."""
