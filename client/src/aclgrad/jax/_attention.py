"""Attention, computed here by JAX; a program of a server repeats the forward pass and computes the gradients.

The server needs its own forward pass for the statistics, because JAX keeps none in float32.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from itertools import compress
from numbers import Real
from typing import Any, Final

import jax
import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.composites.attention import LEAST_BIAS, spread_bias, spread_mask
from aclgrad.composites.operands import Operand
from aclgrad.errors import AclgradError, InvalidFieldError
from aclgrad.jax import _callbacks
from aclgrad.jax._attention_masks import checked_bias, checked_mask, of_lengths, within_lengths
from aclgrad.jax._callbacks import RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import check_call, check_client, checked_dtype
from aclgrad.jax._gradients import second_derivative, varying_alike
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.wire.values import AttributeValue

_NAME: Final = "dot_product_attention"
_FORWARD: Final = "flash_attention_score"
_BACKWARD: Final = "flash_attention_score_grad"
_DTYPES: Final = OPERATORS[_BACKWARD].dtypes
_RANK: Final = 4
_TARGETS: Final = ("query", "key", "value")
_CAUSAL: Final = 2
"""The sparse mode that counts positions from the first query and key, like JAX."""
_HIDDEN: Final = np.float32(0.7) * np.finfo(np.float32).min
"""The score that JAX gives keys that a mask hides."""
_PARAMETERS: Final = {
    **dict.fromkeys(("dy", "attention_in", "softmax_max", "softmax_sum"), "query"),
    **dict.fromkeys(("pse_shift", "real_shift"), "bias"),
    "key_in": "key",
    "atten_mask": "mask",
    "scale_value": "scale",
}


def dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Array | None = None,
    key_value_seq_lengths: Array | None = None,
    local_window_size: int | tuple[int, int] | None = None,
    client: Client,
) -> Array:
    """Returns softmax(query @ key^T * scale + bias) @ value for each head, as `jax.nn.dot_product_attention`.

    `query` is (B, T, N, H) or (T, N, H), `key` and `value` are (B, S, K, H) or (S, K, H), where K divides N; `mask` is
    true where a key is seen. One message has the gradients of query, key and value, which have no derivatives of their
    own. The gradient of the bias is JAX's own: cards have none. So is what queries without a key add to that of value:
    JAX gives them the mean of all values. Takes float32, float16 and bfloat16, all in one dtype.
    """
    check_client(client)
    arrays = _checked_arrays({"query": query, "key": key, "value": value})
    (batch, queries, heads, size), keys = arrays["query"].shape, arrays["key"].shape[1]
    factor = _checked_scale(scale, size)
    whole = (batch, heads, queries, keys)
    added = None if bias is None else checked_bias(bias, whole, arrays["query"].dtype)
    lengths = [
        of_lengths(name, each, batch)
        for name, each in (("query_seq_lengths", query_seq_lengths), ("key_value_seq_lengths", key_value_seq_lengths))
    ]
    seen = checked_mask(mask, whole, bool(is_causal), lengths, local_window_size)
    arrays |= {name: each for name, each in (("bias", added), ("mask", seen)) if each is not None}
    # A mask includes the causal part, because devices do not take both.
    function = _kept(client, arrays, factor, bool(is_causal) and seen is None)
    output = function(*varying_alike(list(arrays.values())))
    if lengths[0] is not None:
        output = output * within_lengths(lengths[0], queries)[..., None, None].astype(output.dtype)
    found: Array = output.reshape(jnp.shape(query))
    return found


def _checked_arrays(given: Mapping[str, Any]) -> dict[str, Array]:
    """Returns the arrays with four axes; raises InvalidFieldError if JAX or every operator refuses them."""
    arrays = {name: checked_dtype(name, each, _DTYPES) for name, each in given.items()}
    query = arrays["query"]
    for name, each in arrays.items():
        if each.dtype != query.dtype:
            problem = f"is {each.dtype}, and query is {query.dtype}"
            raise InvalidFieldError.at(name, problem, "give all in one dtype")
        if each.ndim not in (_RANK - 1, _RANK) or each.ndim != query.ndim:
            rank = f"the {query.ndim} dimensions of query" if query.ndim in (_RANK - 1, _RANK) else "3 or 4 dimensions"
            raise InvalidFieldError.at(f"{name}.shape", f"is {each.shape}", f"give {rank}")
    arrays = {name: each if each.ndim == _RANK else each[None] for name, each in arrays.items()}
    (batch, _, heads, size), (own, _, kv_heads, kv_size) = arrays["query"].shape, arrays["key"].shape
    if (own, kv_size) != (batch, size) or not size:
        problem = f"is {given['key'].shape} for a query of {given['query'].shape}"
        raise InvalidFieldError.at("key.shape", problem, "give equal batches, and heads of equal sizes of at least 1")
    if not kv_heads or heads % kv_heads:
        problem = f"is {given['key'].shape}, with {kv_heads} heads, which do not divide the {heads} of query"
        raise InvalidFieldError.at("key.shape", problem, "give a divisor of the query's heads, at least 1")
    if arrays["value"].shape != arrays["key"].shape:
        raise InvalidFieldError.at("value.shape", f"is {given['value'].shape}", f"give {given['key'].shape}")
    return arrays


def _checked_scale(scale: Any, size: int) -> float:
    if scale is None:
        return 1 / math.sqrt(size)
    if isinstance(scale, bool) or not isinstance(scale, Real) or not math.isfinite(scale):
        raise InvalidFieldError.at("scale", f"is {scale!r}", "give a finite number that is known when JAX traces")
    return float(scale)


def _kept(client: Client, arrays: Mapping[str, Array], scale: float, is_causal: bool) -> Any:
    """Returns the function of arrays like these.

    JAX caches compiled code per function, so the same function is returned again.
    """
    types = {name: jax.ShapeDtypeStruct(each.shape, each.dtype) for name, each in arrays.items()}
    lookup = served_by(client), _NAME, scale, is_causal, *((name, x.shape, x.dtype) for name, x in types.items())
    function = client.bridge_functions.get(lookup)
    if function is None:
        call = _AttentionCall(client, types, scale, is_causal)
        forward = jax.jit(partial(_attend, tuple(types), scale, is_causal))
        function = client.bridge_functions.keep(lookup, _differentiable(call, forward, tuple(types)))
    return function


def _attend(names: Sequence[str], scale: float, is_causal: bool, *arrays: Array) -> Array:
    given = dict(zip(names, arrays, strict=True))
    dtype = given["query"].dtype
    if dtype == jnp.float16 and jax.default_backend() == "cpu":
        # JAX's CPU compiler has no products of float16.
        given |= {name: each.astype(jnp.float32) for name, each in given.items() if name != "mask"}
    return jax.nn.dot_product_attention(**given, scale=scale, is_causal=is_causal).astype(dtype)


def _differentiable(call: "_AttentionCall", forward: Any, names: tuple[str, ...]) -> Any:
    """Returns the function of the arrays of these names, the targets first."""

    def remember(*primals: Any) -> Any:
        arrays = [each.value for each in primals]
        # In the structure, because JAX would trace values.
        return forward(*arrays), (arrays, tuple(() if each.perturbed else None for each in primals))

    def pull(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
        arrays, marks = residuals
        if isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
            return (None,) * len(names)
        wanted = tuple(each is not None for each in marks[: len(_TARGETS)])
        found: dict[str, Any] = {}
        if any(wanted):
            found |= zip(compress(names, wanted), remote(wanted)(cotangent, *arrays), strict=True)
        given = dict(zip(names, arrays, strict=True))
        if "value" in found and "mask" in given:
            found["value"] += _of_unseeing(given["mask"], cotangent, given["value"].shape)
        if "bias" in given and marks[names.index("bias")] is not None:
            at = names.index("bias")
            _, pull_bias = jax.vjp(lambda bias: forward(*arrays[:at], bias, *arrays[at + 1 :]), arrays[at])
            (found["bias"],) = pull_bias(cotangent)
        return tuple(map(found.get, names))

    @cache
    def remote(wanted: Wanted) -> Any:
        def differentiate(*given: Any) -> Any:
            gradients = call(*given, wanted=wanted)
            return tuple(varying_alike([*gradients, *given])[: len(gradients)])

        def pull_again(_: Any, cotangents: Any) -> Any:
            raise second_derivative(_NAME)

        gradients = jax.custom_vjp(differentiate)
        gradients.defvjp(lambda *given: (gradients(*given), None), pull_again)
        return gradients

    function = jax.custom_vjp(forward)
    function.defvjp(remember, pull, symbolic_zeros=True)
    return function


def _of_unseeing(mask: Array, cotangent: Array, shape: tuple[int, ...]) -> Array:
    """Returns the share of each value's gradient from queries without keys, which devices do not compute."""
    batch, keys, kv_heads, size = shape
    queries, heads = cotangent.shape[1:3]
    is_unseeing = jnp.broadcast_to(~mask.any(-1), (batch, heads, queries))
    sums = jnp.einsum("bnt,btnh->bnh", is_unseeing.astype(jnp.float32), cotangent.astype(jnp.float32))
    of_groups = sums.reshape(batch, 1, kv_heads, heads // kv_heads, size).sum(3) / max(keys, 1)
    return of_groups.astype(cotangent.dtype)


class _AttentionCall(RemoteCall):
    """Gets the gradients of query, key and value, given the output's, all three, and bias and mask.

    Elements that vmap maps become sequences.
    """

    def __init__(
        self, client: Client, types: Mapping[str, jax.ShapeDtypeStruct], scale: float, is_causal: bool
    ) -> None:
        super().__init__([types[name] for name in _TARGETS], _RANK)
        self._client = client
        self._names = ("grad", *types)
        self._version = "_v2" if "bias" in types else ""
        self._attributes: dict[str, AttributeValue] = {
            "scale_value": scale,
            "input_layout": "BSND",
            "sparse_mode": _CAUSAL if is_causal else 0,
        }
        self._check(types["query"], types["key"])

    def _check(self, query: jax.ShapeDtypeStruct, key: jax.ShapeDtypeStruct) -> None:
        """Raises a RequestError if the server would refuse the call. Empty calls are not sent, so they are legal."""
        batch, queries, keys = (size or 1 for size in (*query.shape[:2], key.shape[1]))
        kv_heads, size = key.shape[2:]
        heads = query.shape[2] or kv_heads
        type_of = partial(jax.ShapeDtypeStruct, dtype=query.dtype)
        of_query, of_key = type_of((batch, queries, heads, size)), type_of((batch, keys, kv_heads, size))
        rows = jax.ShapeDtypeStruct((batch, heads, queries), jnp.float32)
        forward = {"query": of_query, "key": of_key, "value": of_key}
        backward = {"query": of_query, "key_in": of_key, "value": of_key, "dy": of_query, "attention_in": of_query}
        backward |= {"softmax_max": rows, "softmax_sum": rows}
        if self._version:
            forward["real_shift"] = backward["pse_shift"] = type_of((batch, heads, queries, keys))
        for name, inputs in ((_FORWARD, forward), (_BACKWARD, backward)):
            check_call(self._client, f"{name}{self._version}", inputs, self._attributes, _PARAMETERS)

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return any(0 in each for each in (mapped, *own))

    def _compute(
        self, wanted: Wanted, arrays: Sequence[_callbacks.Array], mapped: tuple[int, ...]
    ) -> Sequence[_callbacks.Array]:
        given = dict(zip(self._names, arrays, strict=True))
        operands = [_joined(given[name], mapped) for name in ("grad", *_TARGETS)]
        grad, query, key, value = operands
        whole = (*query.shape[:1], query.shape[2], query.shape[1], key.shape[1])
        masks, hidden = self._masks(given, mapped, whole)
        attributes = self._attributes | ({} if "mask" not in masks else {"sparse_mode": 0})
        program = self._client.program()
        try:
            statistics: Any = program.execute(
                f"{_FORWARD}{self._version}",
                {"query": query, "key": key, "value": value, **_named(masks, "real_shift")},
                attributes,
            )
            inputs = {"query": query, "key_in": key, "value": value, "dy": grad, **_named(masks, "pse_shift")}
            inputs |= zip(("softmax_max", "softmax_sum", "attention_in"), statistics, strict=True)
            gradients: Any = program.execute(f"{_BACKWARD}{self._version}", inputs, attributes)
            found = list(program.run(*compress(gradients, wanted)))
        except AclgradError as error:
            raise_named(error, _BACKWARD)
        if hidden is not None and wanted[2]:
            found[-1] = found[-1] + _of_hidden(hidden, grad, value.shape[2])
        return found

    def _masks(
        self, given: Mapping[str, Any], mapped: tuple[int, ...], whole: tuple[int, ...]
    ) -> tuple[dict[str, Operand], _callbacks.Array | None]:
        """Returns the bias, and the mask in devices' form: true where a key is not seen.

        JAX gives keys that a mask hides a low score. If a query's other keys have a lower one by their bias, the
        weights go to those hidden keys: they are returned, too, or None.
        """
        batch, found = whole[0] // max(math.prod(mapped), 1), dict[str, Operand]()
        unseen, hidden = ~_joined_masks(given["mask"], mapped, batch) if "mask" in given else None, None
        if "bias" in given:
            bias = _joined_masks(given["bias"], mapped, batch)
            lower = bias < _HIDDEN
            if lower.any():
                is_causal = self._attributes["sparse_mode"] == _CAUSAL
                all_hidden = ~np.tri(*whole[2:], dtype=np.bool_)[None, None] if is_causal else unseen
                if all_hidden is not None:
                    is_low = (all_hidden | lower).all(-1, keepdims=True)
                    hidden = all_hidden & is_low & ~all_hidden.all(-1, keepdims=True)
                    hidden = hidden if hidden.any() else None
                    unseen = all_hidden | is_low
            least = max(LEAST_BIAS, float(jnp.finfo(bias.dtype).min))
            if (bias < least).any():
                # Rows that are all minus infinity have no largest score, but a mask may hide whole rows.
                infinite = bias == -np.inf
                if infinite.any():
                    unseen = infinite if unseen is None else unseen | infinite
                bias = np.where(infinite, 0, np.maximum(bias, least)).astype(bias.dtype)
            found["bias"] = spread_bias(bias, whole)
        if unseen is not None:
            found["mask"] = spread_mask(unseen, whole)
        return found, hidden


def _of_hidden(hidden: _callbacks.Array, grad: _callbacks.Array, kv_heads: int) -> _callbacks.Array:
    """Returns the share of each value's gradient from queries whose weights go to keys that a mask hides."""
    (batch, queries, heads, size), (*shared, _, keys) = grad.shape, hidden.shape
    whole = np.broadcast_to(hidden, (*shared, queries, keys))
    rows = whole.any((0, 1, 3))
    few = whole[:, :, rows]
    weights = few / np.maximum(few.sum(-1, keepdims=True), 1)
    shares = weights.swapaxes(2, 3) @ grad[:, rows].transpose(0, 2, 1, 3).astype(np.float64)
    of_groups = shares.reshape(batch, kv_heads, heads // kv_heads, keys, size).sum(2)
    found: _callbacks.Array = of_groups.transpose(0, 2, 1, 3).astype(grad.dtype)
    return found


def _named(masks: Mapping[str, Any], bias: str) -> dict[str, Any]:
    return {{"bias": bias, "mask": "atten_mask"}[name]: each for name, each in masks.items()}


def _joined(array: _callbacks.Array, mapped: tuple[int, ...]) -> _callbacks.Array:
    """Returns the sequences of all mapped elements, one after the other."""
    own = array.shape[len(mapped) :]
    return np.broadcast_to(array, (*mapped, *own)).reshape(math.prod(mapped) * own[0], *own[1:])


def _joined_masks(array: _callbacks.Array, mapped: tuple[int, ...], batch: int) -> _callbacks.Array:
    """Returns those of all sequences, or the common one."""
    added = len(mapped)
    if math.prod(array.shape[: added + 1]) == 1:
        return array.reshape(array.shape[added:])
    return _joined(np.broadcast_to(array, (*array.shape[:added], batch, *array.shape[added + 1 :])), mapped)
