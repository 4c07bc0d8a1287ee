"""torch_npu's npu_fusion_attention with a server's gradients, and its results as a step of a program."""

from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.judge.dumps.fused_attention import FusedCall, npu_fusion_attention
from aclgrad.operators.cases import arrays_of
from aclgrad.torch.aten import Steps, Value
from aclgrad.torch.calls import LocalError, array_of, note_sent, tensor_of

_OPERATOR: Final = "flash_attention_score"
_GRADIENTS: Final = ("dq", "dk", "dv")


def remote_npu_fusion_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    head_num: int,
    input_layout: str,
    *args: Any,
    client: Client,
    **kwargs: Any,
) -> Any:
    """Returns this CPU's results with gradients from the server."""
    call = FusedCall.of(query, key, value, head_num, input_layout, *args, **kwargs)
    with torch.no_grad():
        found = npu_fusion_attention(query, key, value, head_num, input_layout, *args, **kwargs)
    return _Remote.apply(query, key, value, found[:3], call, client), *found[1:]


class _Remote(torch.autograd.Function):
    """Returns the result unchanged. The server gets the statistics in float32, like a device."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, found: Any, call: FusedCall, client: Client
    ) -> Any:
        ctx.save_for_backward(query, key, value)
        ctx.call = found, call, client
        return found[0].detach()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        (result, most, sums), call, client = ctx.call
        tensors = dict(zip(("query", "key_in", "value"), ctx.saved_tensors, strict=True))
        tensors |= {"dy": grad_output, "softmax_max": most, "softmax_sum": sums, "attention_in": result}
        inputs = {name: array_of(each) for name, each in tensors.items()}
        name = f"{_OPERATOR}_grad{_add_masks(inputs, call, 'pse_shift')}"
        gradients = arrays_of(client.execute(name, inputs, attributes_of(call)))
        note_sent(name, inputs, attributes_of(call), dict(zip(_GRADIENTS, gradients, strict=True)))
        return *map(tensor_of, gradients), None, None, None


def attributes_of(call: FusedCall) -> dict[str, Any]:
    """Returns the operators' attributes. A mask like PyTorch's has mode 0 or 1, which are the same."""
    return {
        "scale_value": call.scale,
        "head_num": call.heads,
        "input_layout": call.layout,
        "sparse_mode": call.mode,
    }


def fusion_attention_steps(
    steps: Steps, query: Value, key: Value, value: Value, head_num: int, input_layout: str, *args: Any, **kwargs: Any
) -> Any:
    """Returns the result and the statistics of one step, in the order of torch_npu."""
    options = {name: _tensor(each) for name, each in kwargs.items()}
    call = FusedCall.of(*map(_tensor, (query, key, value, head_num, input_layout, *args)), **options)
    inputs: dict[str, Any] = {"query": query, "key": key, "value": value}
    made = steps(f"{_OPERATOR}{_add_masks(inputs, call, 'real_shift')}", inputs, **attributes_of(call))
    return made[2], made[0], made[1]


def _tensor(value: Any) -> Any:
    return tensor_of(value) if isinstance(value, np.ndarray) else value


def _add_masks(inputs: dict[str, Any], call: FusedCall, bias: str) -> str:
    """Adds mask and bias to the inputs; returns the suffix of the operator's name for a bias.

    torch_npu scales the bias with the scores; the operator adds it after scaling.
    """
    if call.mask is not None:
        inputs["atten_mask"] = array_of(call.mask)
    if call.pse is None:
        return ""
    scaled = call.pse.detach().double() * call.scale
    rounded = scaled.to(call.pse.dtype)
    if call.pse.itemsize < 4 and not torch.equal(rounded.double(), scaled):
        dtype = str(call.pse.dtype).removeprefix("torch.")
        raise LocalError(f"pse times scale is not exact in {dtype}, and the operator adds it behind the scale")
    inputs[bias] = array_of(rounded)
    return "_v2"
