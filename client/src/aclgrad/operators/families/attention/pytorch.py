"""PyTorch's attention, with which samples are compared."""

from collections.abc import Mapping
from typing import Any, Final

from aclgrad.operators.families.attention.layouts import is_flat

_LOWEST: Final = -3.4e38


def gradients_of_pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """Returns the gradients of PyTorch's own kernel, or of its plain products if that has no such call."""
    import torch

    query, key, value = _heads(tensors, attributes, "query", "key_in", "value")
    grad, result = _heads(tensors, attributes, "dy", "attention_in", of=query)
    bias, scale = _bias(tensors, attributes, query, key), attributes["scale_value"]
    if value.shape[-1] == query.shape[-1]:
        most, sums = (each[..., 0] if each.dim() == 4 else each for each in map(tensors.__getitem__, _STATISTICS))
        logarithms = torch.where(most < _LOWEST, 0.0, most + sums.log())
        kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward  # noqa: SLF001
        found = kernel(grad, query, key, value, result, logarithms, 0.0, False, attn_mask=bias, scale=scale)
    else:
        leaves = [each.detach().requires_grad_() for each in (query, key, value)]
        scores = _scores(leaves[0], leaves[1], bias, scale)
        is_masked = scores == -torch.inf
        # Of rows of minus infinity alone softmax is not a number, and so are its gradients.
        shares = scores.masked_fill(is_masked, torch.finfo(scores.dtype).min).softmax(-1)
        shares = shares.masked_fill(is_masked.all(-1, keepdim=True), 0.0)
        found = torch.autograd.grad(shares @ _repeated(leaves[0], leaves[2]), leaves, grad)
    return tuple(_laid_out(each, attributes) for each in found)


def attention_of_pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """Returns the statistics as well, which PyTorch's own kernel only returns as one logarithm."""
    import torch

    query, key, value = _heads(tensors, attributes, "query", "key", "value")
    scores = _scores(query, key, _bias(tensors, attributes, query, key), attributes["scale_value"])
    most = scores.amax(-1, keepdim=True)
    is_masked = most == -torch.inf
    powers = (scores - most.masked_fill(is_masked, 0.0)).exp()
    sums = powers.sum(-1, keepdim=True)
    result = powers / sums.masked_fill(is_masked, 1.0) @ _repeated(query, value)
    lowest = torch.finfo(torch.float32).min
    statistics = most.masked_fill(is_masked, lowest), sums.masked_fill(is_masked, -lowest)
    return (*(each.float().expand(*each.shape[:-1], 8) for each in statistics), _laid_out(result, attributes))


_STATISTICS: Final = ("softmax_max", "softmax_sum")


def _heads(tensors: Mapping[str, Any], attributes: Mapping[str, Any], *names: str, of: Any = None) -> list[Any]:
    """Returns tensors as (B, N, S, D): of query, key and value, or of gradients and results `of` a query."""
    layout, heads = attributes["input_layout"], attributes["head_num"]
    found: list[Any] = []
    for number, name in enumerate(names):
        tensor = tensors[name]
        if is_flat(layout):
            own = heads if number == 0 or of is not None else found[0].shape[-1] if number == 1 else found[1].shape[1]
            count = tensor.shape[2] // own if number == 1 and of is None else own
            tensor = tensor.unflatten(2, (count, -1))
        found.append(tensor.permute(*map(layout.replace("H", "ND").index, "BNSD")))
    return found


def _laid_out(heads: Any, attributes: Mapping[str, Any]) -> Any:
    layout = attributes["input_layout"]
    found = heads.permute(*map("BNSD".index, layout.replace("H", "ND")))
    return found.flatten(2) if is_flat(layout) else found


def _repeated(query: Any, tensor: Any) -> Any:
    return tensor.repeat_interleave(query.shape[1] // tensor.shape[1], 1)


def _scores(query: Any, key: Any, bias: Any, scale: float | None) -> Any:
    scores = query @ _repeated(query, key).mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    return scores if bias is None else scores + bias


def _bias(tensors: Mapping[str, Any], attributes: Mapping[str, Any], query: Any, key: Any) -> Any:
    """Returns what is added to the scores, with minus infinity where they are masked out; None for nothing."""
    import torch

    mode, rows, columns = attributes["sparse_mode"], query.shape[2], key.shape[2]
    bias, mask = tensors.get("pse_shift", tensors.get("real_shift")), tensors.get("atten_mask")
    if mode > 1:
        first = 1 + (columns - rows if mode == 3 else 0)
        mask = torch.ones(rows, columns, dtype=torch.bool).triu(first)
    if mask is None:
        return bias
    if bias is None:
        return torch.zeros(mask.shape, dtype=query.dtype).masked_fill(mask, -torch.inf)
    return bias.masked_fill(mask, -torch.inf)
