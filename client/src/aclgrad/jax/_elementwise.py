"""The functions of each element by itself."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import jax
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.jax._several import Forward, differentiable_by_several


def silu(input: Array, *, client: Client) -> Array:
    """Returns input * sigmoid(input), as `torch.nn.functional.silu`.

    Takes float32, float16 and bfloat16. The gradient has no derivative of its own.
    """
    return _run("silu", input, client)


def _forward(function: Callable[..., Array], saved: str | None = None) -> Forward:
    """Returns the forward pass of a function; `saved` is the operator's name of the output if it takes that."""

    def forward(arrays: Mapping[str, Array], **static: Any) -> Any:
        input = arrays["input"]
        wide = input.astype(jnp.promote_types(input.dtype, jnp.float32))
        output = function(wide, **static).astype(input.dtype)
        return (output,), {} if saved is None else {saved: output}

    return forward


_FORWARD: Final = {"silu": _forward(jax.nn.silu)}


def _run(name: str, input: Array, client: Client, operator: str = "", **static: Any) -> Array:
    given, forward = {"input": input}, _FORWARD[name]
    return differentiable_by_several(
        client, name, operator or f"{name}_backward", forward, static, given, lambda _: {}
    )[0]
