"""The bias and the mask of attention, from JAX's arguments: masks, lengths, windows, causality."""

from collections.abc import Sequence
from operator import index
from typing import Any, Final

import numpy as np
from jax import Array
from jax import numpy as jnp

from aclgrad.errors import InvalidFieldError
from aclgrad.jax._checks import check_array

Shape = tuple[int, ...]
_RANK: Final = 4


def checked_bias(bias: Any, whole: Shape, dtype: np.dtype[Any]) -> Array:
    """Returns the bias with four axes and this dtype; raises InvalidFieldError if that would round it."""
    found = _checked_shape("bias", bias, whole)
    if not jnp.issubdtype(found.dtype, jnp.floating) or jnp.promote_types(found.dtype, dtype) != dtype:
        problem = f"is {found.dtype}, and query is {dtype}"
        raise InvalidFieldError.at("bias", problem, "cast it to the dtype of query, in which cards add it")
    return found.astype(dtype)


def of_lengths(name: str, lengths: Any, batch: int) -> Array | None:
    """Returns the lengths of the sequences as a JAX array."""
    if lengths is None:
        return None
    check_array(name, lengths)
    found = jnp.asarray(lengths)
    if found.shape != (batch,) or not jnp.issubdtype(found.dtype, jnp.integer):
        raise InvalidFieldError.at(name, f"is {found.dtype} of shape {found.shape}", f"give integers of ({batch},)")
    return found


def within_lengths(lengths: Array, positions: int) -> Array:
    """Returns the valid positions of each sequence."""
    return jnp.arange(positions) < lengths[:, None]


def checked_mask(
    mask: Any, whole: Shape, is_causal: bool, lengths: Sequence[Array | None], local_window_size: Any
) -> Array | None:
    """Returns which queries see which keys, broadcasting to (B, N, T, S); None if only causality restricts them.

    `lengths` has the lengths of queries and of keys.
    """
    queries, keys = whole[2:]
    parts: list[Any] = []
    if mask is not None:
        parts.append(_checked_shape("mask", mask, whole))
        if parts[0].dtype != jnp.bool_:
            raise InvalidFieldError.at("mask", f"is {parts[0].dtype}", "give bool, and numbers as bias")
    if local_window_size is not None:
        left, right = _checked_window(local_window_size)
        distances = np.arange(keys) - np.arange(queries)[:, None]
        parts.append(((distances >= -left) & (distances <= right))[None, None])
    own, other = lengths
    if own is not None:
        parts.append(within_lengths(own, queries)[:, None, :, None])
    if other is not None:
        parts.append(within_lengths(other, keys)[:, None, None, :])
    if not parts:
        return None
    if is_causal:
        parts.append(np.tri(queries, keys, dtype=np.bool_)[None, None])
    found = jnp.asarray(parts[0])
    for each in parts[1:]:
        found = found & each
    return found


def _checked_window(size: Any) -> tuple[int, int]:
    """Returns how many keys before and after its own position a query sees."""
    try:
        left, right = (index(each) for each in (size if isinstance(size, tuple | list) else (size, size)))
    except (TypeError, ValueError):
        raise InvalidFieldError.at("local_window_size", f"is {size!r}", "give an integer, or two of them") from None
    return left, right


def _checked_shape(name: str, value: Any, whole: Shape) -> Array:
    """Returns the array with four axes, each of size 1 or that of the scores."""
    check_array(name, value)
    found = jnp.asarray(value)
    shape = (1,) * (_RANK - found.ndim) + found.shape
    if len(shape) != _RANK or any(size not in (1, most) for size, most in zip(shape, whole, strict=True)):
        raise InvalidFieldError.at(f"{name}.shape", f"is {found.shape}", f"give a shape that broadcasts to {whole}")
    return found.reshape(shape)
