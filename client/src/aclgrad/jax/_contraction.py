"""Contractions: an `einsum` equation, computed here; a server computes its gradients as contractions."""

import math
from collections.abc import Sequence
from functools import partial
from string import ascii_letters
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp

from aclgrad._client.calls.handles import Handle
from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.composites import einsum_backward
from aclgrad.errors import AclgradError
from aclgrad.jax._callbacks import Array, RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import check_products
from aclgrad.jax._gradients import varying_alike
from aclgrad.jax._multilinear import multilinear

Terms = tuple[str, ...]
"""A letter for each axis of the output, and of each operand; no letter twice in one of them."""


_OPERATORS: Final = ("batch_mat_mul", "reduce_sum")
"""The operators of `einsum_backward`."""


def contraction(client: Client, name: str, terms: Terms, operands: Sequence[jax.Array], precision: Any) -> jax.Array:
    """Returns the contraction of the operands, of one dtype, with gradients of them from the client's server.

    Raises a RequestError, with the name of an operand, if the server does not multiply their dtype. JAX caches compiled
    code per function, so the client keeps the function for operands like these.
    """
    types = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in operands]
    key = served_by(client), terms, str(precision), *((each.shape, each.dtype) for each in types)
    function = client.bridge_functions.get(key)
    if function is None:
        check_products(client, _OPERATORS, name, str(operands[0].dtype))
        forward = jax.jit(partial(_forward, terms, precision))
        function = client.bridge_functions.keep(key, multilinear(_ContractionCall(client, terms, types), forward))
    found: jax.Array = function(*varying_alike(operands))
    return found


def _forward(terms: Terms, precision: Any, *operands: jax.Array) -> jax.Array:
    output, *given = terms
    wide = jnp.promote_types(operands[0].dtype, jnp.float32)
    equation = f"{','.join(given)}->{output}"
    return jnp.einsum(equation, *operands, precision=precision, preferred_element_type=wide).astype(operands[0].dtype)


class _ContractionCall(RemoteCall):
    """Gets the gradients of the operands, given the output's and all operands."""

    def __init__(self, client: Client, terms: Terms, types: Sequence[jax.ShapeDtypeStruct]) -> None:
        super().__init__(types, len(terms[0]))
        self._client = client
        self._terms = terms
        self._free = [each for each in ascii_letters if not any(each in term for term in terms)]

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return any(0 in each for each in (mapped, *own))

    def _compute(self, wanted: Wanted, arrays: Sequence[Array], mapped: tuple[int, ...]) -> Sequence[Array]:
        """Makes one call. Unmapped operands are sent unchanged, even if their gradients are mapped."""
        added = len(mapped)
        if all(each.shape[:added] in (mapped, (1,) * added) for each in arrays):
            # With few axes, as operators require.
            own = [(math.prod(each.shape[:added]), *each.shape[added:]) for each in arrays]
            arrays = [each.reshape(shape) for each, shape in zip(arrays, own, strict=True)]
            mapped = (math.prod(mapped),)
        is_mapped = [each.shape[: len(mapped)] == mapped for each in arrays[1:]]
        groups = [tuple(map(bool.__and__, wanted, is_mapped))]
        groups += [_only(at, len(wanted)) for at, each in enumerate(wanted) if each and not is_mapped[at]]
        program = self._client.program()
        handles: dict[int, Handle] = {}
        try:
            for group in filter(any, groups):
                laid = [self._laid(*each, mapped) for each in zip(self._terms, arrays, (False, *group), strict=True)]
                (output, gradient), *operands = laid
                equation = f"{','.join(term for term, _ in operands)}->{output}"
                made = einsum_backward(program, equation, gradient, *(each for _, each in operands), wanted=group)
                handles |= {at: each for at, each in enumerate(made) if each is not None}
            found: list[Array] = program.run(*(handles[at] for at in sorted(handles)))
        except AclgradError as error:
            raise_named(error, "einsum_backward")
        return found

    def _laid(self, term: str, array: Array, is_whole: bool, mapped: tuple[int, ...]) -> tuple[str, Array]:
        """Returns the array and its term, with its mapped axes, or with all if the server needs its shape."""
        own = array.shape[len(mapped) :]
        whole = np.broadcast_to(array, (*mapped, *own)) if is_whole else array
        kept = [axis for axis in range(len(mapped)) if whole.shape[axis] > 1]
        front = "".join(self._free[axis] for axis in kept)
        return front + term, whole.reshape([*(whole.shape[axis] for axis in kept), *own])


def _only(place: int, count: int) -> Wanted:
    return tuple(each == place for each in range(count))
