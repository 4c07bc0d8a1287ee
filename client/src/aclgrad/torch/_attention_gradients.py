"""PyTorch's own kernel of attention for the CPU, whose gradients come from a server: `flash_attention_score_grad`.

The kernel keeps the logarithm of each row's sum of exponentials. The operator gets it as the row's maximum, with a sum
of 1: exp(score - logarithm) / 1 is the weight of the score.
"""

import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.utils.flop_counter import sdpa_backward_flop

from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.torch._account import CallSite, layer_of
from aclgrad.torch._gradients import GRADIENTS
from aclgrad.torch._operations import counted_by_node, note_compiled, tell_of, without_autocast
from aclgrad.torch._tensors import client_of, type_of

FUNCTION: Final = "scaled_dot_product_attention"
OPERATORS: Final = ("flash_attention_score_grad", "flash_attention_score_grad_v2")
"""The operators without and with a bias."""
_LAYOUT: Final = "BSND"
_CAUSAL: Final = 2
"""Causal masks count from the first query and key, like PyTorch's."""
_REMEDY: Final = "outside of the block, have PyTorch take its math path: sdpa_kernel(SDPBackend.MATH)"


class Rule(NamedTuple):
    """The settings of a call.

    The kernel adds the mask to scores. If it `is_bool`, its elements are 0 and minus infinity.
    """

    is_bool: bool
    is_causal: bool
    scale: float | None
    client: int

    @property
    def sparse_mode(self) -> int:
        return _CAUSAL if self.is_causal else 0


def _kernel(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rule: Rule) -> tuple[Tensor, Tensor]:
    kernel = "_scaled_dot_product_flash_attention_for_cpu"
    with without_autocast(query.device.type):
        output, logsumexp = getattr(torch.ops.aten, kernel)(
            query, key, value, 0.0, rule.is_causal, attn_mask=mask, scale=rule.scale
        )
    return output, logsumexp


def _execute(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    rule = Rule(*rest)
    _check(query, key, value, mask, rule)
    output, logsumexp = _kernel(query, key, value, mask, rule)
    note_compiled(FUNCTION, rule.client)
    return output, logsumexp


def _infer(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *rest: Any) -> tuple[Tensor, Tensor]:
    return _kernel(query, key, value, mask, Rule(*rest))


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, rule: Rule) -> None:
    """Raises InvalidFieldError or OperatorNotSupportedError if the server would refuse the gradient."""
    of_query, of_key, of_value = (type_of(each.transpose(1, 2)) for each in (query, key, value))
    output = TensorType(of_query.dtype, (*of_query.shape[:3], value.shape[3]))
    statistics = TensorType(DTYPES["float32"], tuple(query.shape[:3]))
    inputs = {"query": of_query, "key_in": of_key, "value": of_value, "dy": output}
    if mask is not None:
        shape = _mask_shape(mask, query, key, is_bias=not rule.is_bool)
        name, dtype = ("atten_mask", DTYPES["bool"]) if rule.is_bool else ("pse_shift", of_query.dtype)
        inputs[name] = TensorType(dtype, shape)
    inputs |= {"softmax_max": statistics, "softmax_sum": statistics, "attention_in": output}
    is_both = mask is not None and rule.is_causal
    attributes: Mapping[str, Any] = {
        **({} if rule.scale is None else {"scale_value": rule.scale}),
        "input_layout": _LAYOUT,
        "sparse_mode": 0 if is_both else rule.sparse_mode,
    }
    operator = OPERATORS["pse_shift" in inputs]
    try:
        served_by(client_of(rule.client)).check(operator, inputs, attributes)
    except AclgradError as error:
        tell_of(error, operator, FUNCTION)
        raise


_SCHEMA: Final = (
    "(Tensor query, Tensor key, Tensor value, Tensor? mask, bool is_bool, bool is_causal, float? scale, "
    "SymInt client) -> (Tensor, Tensor)"
)
torch.library.custom_op(f"aclgrad::{FUNCTION}", _execute, mutates_args=(), schema=_SCHEMA).register_fake(_infer)
_FORWARD: Final = getattr(torch.ops.aclgrad, FUNCTION).default


class Attention(torch.autograd.Function):
    """Takes the operator's arguments; also returns the logarithms of the rows' sums."""

    @staticmethod
    def forward(*values: Any) -> Any:
        if torch.compiler.is_compiling():
            return _FORWARD(*values)
        with counted_by_node():
            return _FORWARD(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        query, key, value, mask, *rest = inputs
        # In the order of PyTorch's node, because a checkpoint may recompute with that.
        masks = [] if mask is None else [mask]
        ctx.save_for_backward(*masks, key, query, value, output[1], output[0])
        ctx.rule = Rule(*rest)
        ctx.mark_non_differentiable(output[1])
        if not torch.compiler.is_compiling():
            ctx.call_site = CallSite(FUNCTION, layer_of(sys._getframe(1)), None)  # noqa: SLF001
            heads = (query.shape[1], *key.shape[2:]), (query.shape[1], *value.shape[2:])
            shapes = query.shape, *((query.shape[0], *each) for each in heads)
            ctx.flops = sdpa_backward_flop(output[0].shape, *shapes)

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor, _: Any) -> Any:
        *masks, key, query, value, logsumexp, output = ctx.saved_tensors
        mask = masks[0] if masks else None
        wanted = list(ctx.needs_input_grad[:3])
        values = grad_output, query, key, value, mask, logsumexp, output, *ctx.rule[:-1], wanted, ctx.rule.client
        if torch.compiler.is_compiling():
            found = _gradients(*values)
        else:
            try:
                found = AttentionBackward.apply(*values)
            except AclgradError as error:
                error.message = f"the gradient of {ctx.call_site}: {error.message}"
                raise
        gradients = (each if is_wanted else None for each, is_wanted in zip(found, wanted, strict=True))
        return *gradients, None, None, None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
        """Makes one call: elements become sequences of the batch."""
        size, batch = info.batch_size, _batch_of(values[0], in_dims[0])
        query, key, value = (_in_batch(*each, size) for each in zip(values[:3], in_dims, strict=False))
        mask = _mask_in_batch(values[3], in_dims[3], size, batch)
        output, logsumexp = Attention.apply(query, key, value, mask, *values[4:])
        return tuple(each.reshape(size, batch, *each.shape[1:]) for each in (output, logsumexp)), (0, 0)


class AttentionBackward(torch.autograd.Function):
    """The gradients of query, key and value, which have no gradients themselves."""

    @staticmethod
    def forward(*values: Any) -> Any:
        return _gradients(*values)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.call_site = CallSite(f"{FUNCTION}_backward", "", "only in part a call")

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        problem = "has no second derivative on a server, as in PyTorch"
        raise InvalidFieldError.at(FUNCTION, problem, _REMEDY)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *values: Any) -> Any:
        size, batch = info.batch_size, _batch_of(values[0], in_dims[0])
        tensors = {index: _in_batch(values[index], in_dims[index], size) for index in (0, 1, 2, 3, 5, 6)}
        mask = _mask_in_batch(values[4], in_dims[4], size, batch)
        changed = [mask if index == 4 else tensors.get(index, each) for index, each in enumerate(values)]
        found, wanted = AttentionBackward.apply(*changed), values[-2]
        pairs = list(zip(found, wanted, strict=True))
        return (
            tuple(each.reshape(size, batch, *each.shape[1:]) if is_wanted else each for each, is_wanted in pairs),
            tuple(0 if is_wanted else None for is_wanted in wanted),
        )


def _batch_of(tensor: Tensor, dim: int | None) -> int:
    """Returns the number of sequences of each element of vmap."""
    return int(tensor.shape[0] if dim is None else tensor.movedim(dim, 0).shape[1])


def _in_batch(tensor: Tensor, dim: int | None, size: int) -> Tensor:
    """Returns the tensor with the elements of vmap in its first axis."""
    whole = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return whole.flatten(0, 1)


def _mask_in_batch(mask: Tensor | None, dim: int | None, size: int, batch: int) -> Tensor | None:
    if mask is None or (dim is None and (mask.dim() < 4 or mask.shape[0] == 1)):
        return mask
    whole = mask.expand(size, *mask.shape) if dim is None else mask.movedim(dim, 0)
    whole = whole.reshape(size, *[1] * (5 - whole.dim()), *whole.shape[1:])
    return whole.expand(size, batch, *whole.shape[2:]).flatten(0, 1)


def _gradients(
    grad_output: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    logsumexp: Tensor,
    output: Tensor,
    is_bool: bool,
    is_causal: bool,
    scale: float | None,
    wanted: list[bool],
    client: int,
) -> Any:
    rule = Rule(is_bool, is_causal, scale, client)
    if mask is not None and is_causal:
        # The operator takes one of the two.
        future = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=mask.device).triu(1)
        mask, rule = mask.masked_fill(future, -torch.inf), rule._replace(is_causal=False)
    masks: tuple[Tensor | None, ...] = (None,)
    if mask is not None:
        shape = _mask_shape(mask, query, key, is_bias=not is_bool)
        whole = mask.isneginf() if is_bool else mask.to(query.dtype)
        masks = (whole.expand(shape),) if is_bool else (whole.expand(shape), None)
    # Here, a row without keys has the logarithm 0, elsewhere minus infinity.
    rows = logsumexp.masked_fill(logsumexp.isneginf(), 0.0).contiguous()
    gradient_op = GRADIENTS[OPERATORS[len(masks) - 1]]
    sums = rows.new_ones(()).expand(rows.shape)
    # PyTorch's gradients are in the layout of rows of all heads.
    of_rows = (each.transpose(1, 2) for each in (query, key, value, grad_output))
    tensors = *of_rows, *masks, rows, sums, output.transpose(1, 2)
    found = gradient_op(*tensors, scale, None, _LAYOUT, rule.sparse_mode, wanted, client)
    return tuple(each.transpose(1, 2) if is_wanted else each for each, is_wanted in zip(found, wanted, strict=True))


def _mask_shape(mask: Tensor, query: Tensor, key: Tensor, *, is_bias: bool) -> tuple[int, ...]:
    """Returns the smallest shape for the operator to which the mask broadcasts."""
    batch, heads, rows, columns = query.shape[0], query.shape[1], query.shape[2], key.shape[2]
    own = (*[1] * (4 - mask.dim()), *mask.shape)
    if is_bias:
        # Equal rows are sent once if there is a row for each sequence.
        is_row = own[2] == 1 and (own[0] == batch or batch == 1)
        return (batch if is_row or own[0] != 1 else 1, heads, 1 if is_row else rows, columns)
    return (1 if own[:2] == (1, 1) else batch, heads if own[1] != 1 else 1, rows, columns)
