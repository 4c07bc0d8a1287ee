"""Contractions: an equation of `einsum`, computed here, whose gradients are contractions by a server."""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import compress, count
from string import ascii_letters
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp

from aclgrad._client.calls.handles import Handle
from aclgrad._client.sync.client import Client
from aclgrad.bridges.served import served_by
from aclgrad.composites import einsum_backward
from aclgrad.errors import AclgradError
from aclgrad.jax._callbacks import Array, RemoteCall, Wanted, raise_named
from aclgrad.jax._checks import check_products
from aclgrad.jax._gradients import varying_alike

Terms = tuple[str, ...]
"""A letter for each axis of the output, and of each operand; no letter twice in one of them."""


_OPERATORS: Final = ("batch_mat_mul", "reduce_sum")
"""What `einsum_backward` takes."""


def contraction(client: Client, name: str, terms: Terms, operands: Sequence[jax.Array], precision: Any) -> jax.Array:
    """Returns the contraction of the operands, of one dtype, with gradients of them from the client's server.

    Raises a RequestError, with the name of an operand, if that does not multiply their dtype.
    JAX keeps what it compiles for a function as long as the function, so one that is called again with operands like
    these is the same one. It ends with the client.
    """
    types = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in operands]
    key = served_by(client), terms, str(precision), *((each.shape, each.dtype) for each in types)
    function = client.bridge_functions.get(key)
    if function is None:
        check_products(client, _OPERATORS, name, str(operands[0].dtype))
        forward = jax.jit(partial(_forward, terms, precision))
        function = client.bridge_functions.keep(key, _function(_ContractionCall(client, terms, types), forward))
    found: jax.Array = function(*varying_alike(operands))
    return found


def _forward(terms: Terms, precision: Any, *operands: jax.Array) -> jax.Array:
    output, *given = terms
    wide = jnp.promote_types(operands[0].dtype, jnp.float32)
    equation = f"{','.join(given)}->{output}"
    return jnp.einsum(equation, *operands, precision=precision, preferred_element_type=wide).astype(operands[0].dtype)


class _ContractionCall(RemoteCall):
    """Has the gradients of the operands computed, given that of the output and all of them."""

    def __init__(self, client: Client, terms: Terms, types: Sequence[jax.ShapeDtypeStruct]) -> None:
        super().__init__(types, len(terms[0]))
        self._client = client
        self._terms = terms
        self._free = [each for each in ascii_letters if not any(each in term for term in terms)]

    def _is_empty(self, mapped: tuple[int, ...], own: Sequence[tuple[int, ...]]) -> bool:
        return any(0 in each for each in (mapped, *own))

    def _compute(self, wanted: Wanted, arrays: Sequence[Array], mapped: tuple[int, ...]) -> Sequence[Array]:
        """Makes one call. Operands that are not mapped are sent as they are, also if their gradients are."""
        added = len(mapped)
        if all(each.shape[:added] in (mapped, (1,) * added) for each in arrays):
            # Of few axes, as operators take.
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
        """Returns the array and its term, with the mapped axes that it has, or with all: the server needs its shape."""
        own = array.shape[len(mapped) :]
        whole = np.broadcast_to(array, (*mapped, *own)) if is_whole else array
        kept = [axis for axis in range(len(mapped)) if whole.shape[axis] > 1]
        front = "".join(self._free[axis] for axis in kept)
        return front + term, whole.reshape([*(whole.shape[axis] for axis in kept), *own])


def _only(place: int, count: int) -> Wanted:
    return tuple(each == place for each in range(count))


def _function(call: _ContractionCall, forward: Callable[..., jax.Array]) -> Any:
    """Returns the function of the operands, and its gradients of any order."""

    def remember(*primals: Any) -> Any:
        operands = [each.value for each in primals]
        # In the structure and not as values, which JAX would trace.
        marks = tuple(() if each.perturbed else None for each in primals)
        # Not what the function is made of, so that second derivatives are remote as well.
        return function(*operands), (operands, marks)

    def pull(residuals: Any, cotangent: Any) -> tuple[Any, ...]:
        operands, marks = residuals
        wanted = tuple(each is not None for each in marks)
        if not any(wanted) or isinstance(cotangent, jax.custom_derivatives.SymbolicZero):
            return (None,) * len(operands)
        found = iter(remote(wanted)(cotangent, *operands))
        return tuple(next(found) if each else None for each in wanted)

    @cache
    def remote(wanted: Wanted) -> Any:
        def differentiate(gradient: Any, *operands: Any) -> Any:
            gradients = call(gradient, *operands, wanted=wanted)
            return tuple(varying_alike([*gradients, gradient, *operands])[: len(gradients)])

        def pull_again(given: Any, cotangents: Any) -> Any:
            """Each gradient is a contraction of the others with that of the output, and linear in each of them."""
            gradient, *operands = given
            found: list[list[Any]] = [[] for _ in given]
            for at, cotangent in zip(compress(count(), wanted), cotangents, strict=True):
                moved = [*operands[:at], cotangent, *operands[at + 1 :]]
                others = tuple(place != at for place in range(len(operands)))
                found[0].append(function(*moved))
                for place, each in zip(compress(count(1), others), remote(others)(gradient, *moved), strict=True):
                    found[place].append(each)
            return tuple(sum(each[1:], each[0]) if each else None for each in found)

        gradients = jax.custom_vjp(differentiate)
        gradients.defvjp(lambda *given: (gradients(*given), given), pull_again)
        return gradients

    function = jax.custom_vjp(forward)
    function.defvjp(remember, pull, symbolic_zeros=True)
    return function
