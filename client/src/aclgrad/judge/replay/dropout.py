"""Dropouts that keep the same elements as a call's output: by PyTorch, and with the gradient of a server."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from aclgrad._client.sync.client import Client
from aclgrad.judge.dumps.choices import DROPOUTS, as_recorded, kept_of, probability_of
from aclgrad.judge.dumps.recorded import tensors_of
from aclgrad.operators.dropout_do_mask.spec import packed
from aclgrad.torch.calls import LocalError, array_of, note_sent, tensor_of

_OPERATOR: Final = "dropout_do_mask"

Pair = tuple[Callable[..., Any], Callable[..., Any]]
"""A function, and the same one with the gradient of a client's server."""


def is_dropout(name: str) -> bool:
    """Returns whether the function of this name draws elements to keep that its output shows."""
    return name in DROPOUTS


def as_it_kept(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Tensor]) -> Pair:
    """Returns the dropout of a call with these outputs, the mask after the result if it returns one.

    Raises LocalError for a call that drops nothing.
    """
    probability = probability_of(*args, **kwargs)
    if not probability:
        raise LocalError("it drops nothing, so there is no gradient to compute")
    source, (output, *masks) = tensors_of((list(args), dict(kwargs)))[0].detach(), outputs
    mask = masks[0] if masks else None
    kept, local = kept_of(source, output, mask), as_recorded(name, probability, source, output, mask=mask)

    def remote(input: Tensor, p: float = 0.5, *_: Any, client: Client, **__: Any) -> Tensor:
        found = local(input, p)
        result: Tensor = _Remote.apply(
            input, found[0] if isinstance(found, tuple) else found, kept, probability, client
        )
        return result

    return local, remote


class _Remote(torch.autograd.Function):
    """Returns the result unchanged, with the gradient of a server."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, result: Tensor, kept: Tensor, probability: float, client: Client) -> Tensor:
        ctx.call = kept, probability, client
        return result.detach()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> Any:
        kept, probability, client = ctx.call
        inputs = {"self": array_of(grad_output), "mask": packed(array_of(kept))}
        attributes = {"prob": probability}
        gradient = client.execute(_OPERATOR, inputs, attributes)
        note_sent(_OPERATOR, inputs, attributes, {"out": gradient})
        return tensor_of(gradient).to(grad_output.device), None, None, None, None
