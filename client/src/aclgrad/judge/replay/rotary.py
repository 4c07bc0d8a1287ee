"""torch_npu's npu_rotary_mul with the gradients of a server."""

from typing import Any, Final

import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.judge.dumps.rotary import mode_of, npu_rotary_mul
from aclgrad.operators.cases import arrays_of
from aclgrad.torch.calls import array_of, note_sent, tensor_of

_OPERATOR: Final = "rotary_position_embedding_grad"
_GRADIENTS: Final = ("dx", "dcos", "dsin")


def remote_npu_rotary_mul(
    input: Tensor, r1: Tensor, r2: Tensor, rotary_mode: str = "half", rotate: Tensor | None = None, *, client: Client
) -> Tensor:
    """Returns this CPU's result with gradients from the server."""
    mode = mode_of(rotary_mode, rotate)
    with torch.no_grad():
        found = npu_rotary_mul(input, r1, r2, rotary_mode)
    result: Tensor = _Remote.apply(input, r1, r2, found, mode, client)
    return result


class _Remote(torch.autograd.Function):
    """Sends the input only for the gradients of r1 and r2, like torch_npu."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, r1: Tensor, r2: Tensor, found: Tensor, mode: int, client: Client) -> Tensor:
        ctx.save_for_backward(input, r1, r2)
        ctx.call = mode, client
        return found.detach()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        input, r1, r2 = ctx.saved_tensors
        mode, client = ctx.call
        is_alone = not any(ctx.needs_input_grad[1:3])
        tensors = {"dy": grad_output, "cos": r1, "sin": r2, **({} if is_alone else {"x": input})}
        inputs = {name: array_of(each.to(input.dtype)) for name, each in tensors.items()}
        wanted = _GRADIENTS[: 1 if is_alone else None]
        found = arrays_of(client.execute(_OPERATOR, inputs, {"mode": mode}, outputs=wanted))
        gradients = {name: each for name, each in zip(_GRADIENTS, found, strict=False) if name in wanted}
        note_sent(_OPERATOR, inputs, {"mode": mode}, gradients)
        results = [tensor_of(each).to(of.dtype) for each, of in zip(gradients.values(), (input, r1, r2), strict=False)]
        return *results, *[None] * (6 - len(results))
