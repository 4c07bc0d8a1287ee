"""Dropout: JAX draws the kept elements, and a server computes the gradient."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.jax import _callbacks
from aclgrad.jax._callbacks import RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import check_call, check_client, checked_dtype
from aclgrad.jax._gradients import varying_alike, with_gradient
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.dropout_do_mask.spec import mask_bytes, packed

_OPERATOR: Final = "dropout_do_mask"


def dropout(input: Array, rate: float = 0.5, *, key: Array, client: Client) -> Array:
    """Drops elements with the probability `rate`, and divides the others by 1 - rate; `jax.random.bernoulli` draws.

    The gradient is the card's: in 16 bits it rounds 1 - rate first. It is linear, and its gradient is another call.
    Takes float32, float16 and bfloat16. Nothing is sent for the rates 0 and 1.
    """
    check_client(client)
    array = checked_dtype("input", input, OPERATORS[_OPERATOR].dtypes)
    if isinstance(rate, bool) or not isinstance(rate, float | int) or not 0 <= rate <= 1:
        raise InvalidFieldError.at("rate", f"is {rate!r}", "give a number from 0 to 1")
    if rate in (0, 1):
        return array * (1 - rate)
    mask = jax.random.bernoulli(key, 1 - rate, array.shape)
    lookup = served_by(client), _OPERATOR, rate, array.shape, array.dtype
    function = client.bridge_functions.get(lookup)
    if function is None:
        call = _DropoutCall(client, float(rate), array)
        made = with_gradient(call, "dropout", jax.jit(partial(_dropped, rate)), is_linear=True)
        function = client.bridge_functions.keep(lookup, made)
    found: Array = function(*varying_alike([array, mask]))
    return found


def _dropped(rate: float, input: Array, mask: Array) -> tuple[Array, Array]:
    return jnp.where(mask, input / (1 - rate), 0).astype(input.dtype), mask


class _DropoutCall(RemoteCall):
    """Gets the gradient of the input, given the output's and the kept elements."""

    def __init__(self, client: Client, rate: float, input: Array) -> None:
        type = jax.ShapeDtypeStruct(input.shape, input.dtype)
        super().__init__([type], input.ndim)
        self._client = client
        self._rate = rate
        sent = {
            "self": jax.ShapeDtypeStruct((1,), input.dtype),
            "mask": jax.ShapeDtypeStruct((mask_bytes(1),), jnp.uint8),
        }
        check_call(client, _OPERATOR, sent, {"prob": rate}, {"prob": "rate"})

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return any(0 in each for each in (mapped, *own))

    def _compute(
        self, wanted: Wanted, arrays: Sequence[_callbacks.Array], mapped: tuple[int, ...]
    ) -> Sequence[_callbacks.Array]:
        gradient, mask = (np.broadcast_to(each, (*mapped, *each.shape[len(mapped) :])).ravel() for each in arrays)
        try:
            found: Any = self._client.execute(_OPERATOR, {"self": gradient, "mask": packed(mask)}, {"prob": self._rate})
        except AclgradError as error:
            raise_named(error, _OPERATOR)
        return [found]
