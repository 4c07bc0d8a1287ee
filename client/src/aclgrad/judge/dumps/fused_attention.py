"""torch_npu's npu_fusion_attention by PyTorch, in its arguments' dtype like a card, or in float64.

Like a card, these keep sums in float32, and round weights and gradients of scores to 16 bits before products.
"""

from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad.judge.dumps.choices import NotJudgedError
from aclgrad.operators.families.attention.definition import LOWEST
from aclgrad.operators.families.attention.layouts import LAYOUTS, TRIANGLE_SIDE, is_flat

_ALL_TOKENS: Final = 2**31 - 1
_LANES: Final = 8
_CAUSAL: Final = {2: 0, 3: 1}
"""The sparse modes of causal masks, by whether they count from the first query and key or from the last ones."""
_OTHER_MODES: Final = {
    4: "a band",
    **dict.fromkeys((5, 6), "prefixes"),
    **dict.fromkeys((7, 8), "bands of several sequences"),
}


@dataclass(frozen=True, slots=True, eq=False)
class FusedCall:
    """The settings of a call. `mask` is true where a key is not seen, None in a causal mode or without a mask."""

    heads: int
    layout: str
    scale: float
    mode: int
    mask: Tensor | None
    pse: Tensor | None

    @classmethod
    def of(
        cls,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        head_num: int,
        input_layout: str,
        pse: Tensor | None = None,
        padding_mask: Tensor | None = None,
        atten_mask: Tensor | None = None,
        scale: float = 1.0,
        keep_prob: float = 1.0,
        pre_tockens: int = _ALL_TOKENS,
        next_tockens: int = _ALL_TOKENS,
        inner_precise: int = 0,
        prefix: Any = None,
        actual_seq_qlen: Any = None,
        actual_seq_kvlen: Any = None,
        sparse_mode: int = 0,
        gen_mask_parallel: bool = True,
        sync: bool = False,
        softmax_layout: str = "",
        sink: Tensor | None = None,
    ) -> "FusedCall":
        """Reads the arguments of the function; raises NotJudgedError with the reason if they are not supported."""
        if keep_prob < 1:
            raise NotJudgedError(f"keep_prob is {keep_prob:g}, and a dump does not have what a device drops")
        if input_layout not in LAYOUTS:
            several = "; sequences of several lengths are not judged" if input_layout == "TND" else ""
            raise NotJudgedError(f"its input_layout is {input_layout}, and not one of {', '.join(LAYOUTS)}{several}")
        if sparse_mode not in (0, 1, *_CAUSAL):
            hidden = _OTHER_MODES.get(sparse_mode, "something else")
            raise NotJudgedError(f"sparse_mode {sparse_mode} shows {hidden}; modes 0 to 3 are judged")
        if pse is not None and pse.requires_grad:
            raise NotJudgedError("pse needs a gradient, which no device computes")
        if sink is not None:
            raise NotJudgedError("it has a sink, a score without a key")
        own = cls(head_num, input_layout, float(scale), sparse_mode, None, pse)
        rows, columns = own.of_query(query).shape[2], own.of_keys(query, key, key).shape[2]
        if sparse_mode in _CAUSAL:
            _check_triangle(atten_mask, sparse_mode)
        elif atten_mask is not None:
            mask = atten_mask != 0
            if sparse_mode == 0:
                _check_tokens(mask, rows, columns, pre_tockens, next_tockens)
            return cls(head_num, input_layout, float(scale), sparse_mode, mask, pse)
        return own

    def of_query(self, tensor: Tensor) -> Tensor:
        """Returns a view of the shape (B, N, S, D)."""
        return self._heads(tensor, self.heads)

    def of_keys(self, query: Tensor, key: Tensor, tensor: Tensor) -> Tensor:
        """Returns a view of the keys, or of the values with as many heads, of the shape (B, M, T, D)."""
        if not is_flat(self.layout):
            return self._heads(tensor, 0)
        size = query.shape[2] // self.heads
        return self._heads(tensor, max(key.shape[2] // max(size, 1), 1))

    def laid_out(self, heads: Tensor) -> Tensor:
        """Returns a tensor of the shape (B, N, S, D) in the call's layout."""
        found = heads.permute(*map("BNSD".index, self.layout.replace("H", "ND")))
        return found.flatten(2) if is_flat(self.layout) else found

    def hidden(self, rows: int, columns: int, device: torch.device) -> Tensor | None:
        """Returns the mask that is true where a key is not seen; None if all are seen."""
        if self.mode not in _CAUSAL:
            return self.mask
        first = 1 + _CAUSAL[self.mode] * (columns - rows)
        return torch.ones(rows, columns, dtype=torch.bool, device=device).triu(first)

    def _heads(self, tensor: Tensor, count: int) -> Tensor:
        split = tensor.unflatten(2, (count, -1)) if is_flat(self.layout) else tensor
        return split.permute(*map(self.layout.replace("H", "ND").index, "BNSD"))


def _check_triangle(mask: Tensor | None, mode: int) -> None:
    """Checks that the mask is the triangle: a device reads no other shape, and assumes its values."""
    side = (TRIANGLE_SIDE, TRIANGLE_SIDE)
    is_triangle = mask is not None and mask.shape == side
    if is_triangle and mask is not None and not mask.is_meta:
        is_triangle = torch.equal(mask != 0, torch.ones(side, dtype=torch.bool).triu(1))
    if not is_triangle:
        what = f"the triangle of {TRIANGLE_SIDE} x {TRIANGLE_SIDE} above the diagonal"
        raise NotJudgedError(f"its atten_mask is not {what}, which sparse_mode {mode} takes")


def _check_tokens(mask: Tensor, rows: int, columns: int, before: int, after: int) -> None:
    """Checks that tokens repeat the mask, or leave out nothing."""
    if mask.is_meta or (before >= rows - 1 and after >= columns - 1):
        return
    distance = torch.arange(columns) - torch.arange(rows)[:, None]
    outside = (distance > after) | (-distance > before)
    if bool((outside & ~mask).any()):
        raise NotJudgedError("pre_tockens and next_tockens leave out keys that atten_mask shows")


class _Fused(torch.autograd.Function):
    """The result, and each row's largest score and sum of exponentials."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, call: FusedCall) -> Any:
        shares, most, sums = _shares(call, query, key)
        values = _repeated(call.of_keys(query, key, value), call.heads).to(shares.dtype)
        result = call.laid_out(_rounded(shares, query) @ values).to(query.dtype).contiguous()
        ctx.save_for_backward(query, key, value, shares, result)
        ctx.call = call
        ctx.mark_non_differentiable(most, sums)
        return result, most, sums

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        query, key, value, shares, result = ctx.saved_tensors
        call, wide = ctx.call, shares.dtype
        queries, grad, results = (call.of_query(each).to(wide) for each in (query, gradients[0], result))
        own = call.of_keys(query, key, key)
        keys, values = (_repeated(each, call.heads).to(wide) for each in (own, call.of_keys(query, key, value)))
        of_shares = grad @ values.mT - (grad * results).sum(-1, keepdim=True)
        of_scores = _rounded(shares * of_shares, query)
        of_queries = call.scale * of_scores @ keys
        of_keys = call.scale * of_scores.mT @ queries
        of_values = _rounded(shares, query).mT @ grad
        shared = own.shape[1]
        found = (
            of_queries,
            *(each.unflatten(1, (shared, -1)).sum(2) for each in (of_keys, of_values)),
        )
        return *(call.laid_out(each).to(query.dtype) for each in found), None


def _shares(call: FusedCall, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the weights of all keys, 0 in rows without keys, and the statistics of the rows."""
    wide = torch.promote_types(query.dtype, torch.float32)
    queries, keys = call.of_query(query).to(wide), _repeated(call.of_keys(query, key, key), call.heads).to(wide)
    scores = queries @ keys.mT
    if call.pse is not None:
        scores = scores + call.pse.to(wide)
    scores = scores * call.scale
    hidden = call.hidden(scores.shape[2], scores.shape[3], scores.device)
    if hidden is not None:
        scores = scores.masked_fill(hidden, LOWEST)
    most = scores.amax(-1, keepdim=True)
    powers = (scores - most).exp()
    sums = powers.sum(-1, keepdim=True)
    is_hidden = most == LOWEST
    shares = (powers / sums).masked_fill(is_hidden, 0.0)
    lanes = (*most.shape[:-1], _LANES)
    return shares, most.expand(lanes).clone(), sums.masked_fill(is_hidden, -LOWEST).expand(lanes).clone()


def _repeated(tensor: Tensor, heads: int) -> Tensor:
    return tensor.repeat_interleave(heads // max(tensor.shape[1], 1), 1)


def _rounded(tensor: Tensor, like: Tensor) -> Tensor:
    """Returns a device's operand of products, rounded to the operands' dtype."""
    return tensor.to(like.dtype).to(tensor.dtype)


def npu_fusion_attention(
    query: Tensor, key: Tensor, value: Tensor, head_num: int, input_layout: str, *args: Any, **kwargs: Any
) -> Any:
    """Returns the result, both statistics, an empty tensor, and the three numbers of an unused dropout."""
    call = FusedCall.of(query, key, value, head_num, input_layout, *args, **kwargs)
    result, most, sums = _Fused.apply(query, key, value, call)
    return result, most, sums, torch.empty(0, dtype=query.dtype, device=query.device), 0, 0, 0
