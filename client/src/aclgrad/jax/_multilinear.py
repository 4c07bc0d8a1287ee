"""Functions that are linear in each array, computed here; a server computes their gradients of any order."""

from collections.abc import Callable
from functools import cache
from itertools import compress, count
from typing import Any

import jax

from aclgrad.jax._callbacks import RemoteCall, Wanted
from aclgrad.jax._gradients import varying_alike


def multilinear(call: RemoteCall, forward: Callable[..., jax.Array]) -> Any:
    """Returns the function of the operands; `call` computes their gradients, given the output's and all operands."""

    def remember(*primals: Any) -> Any:
        operands = [each.value for each in primals]
        # In the structure, because JAX would trace values.
        marks = tuple(() if each.perturbed else None for each in primals)
        # The function itself and not its parts, so that second derivatives are remote, too.
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
            """Each gradient is linear in the output's gradient, and in each of the other operands."""
            gradient, *operands = given
            if len(operands) == 2 and all(wanted):
                # Each gradient is by the other's cotangent, so that one call has both.
                one, other = operands
                both = function(cotangents[0], other), function(one, cotangents[1])
                return both[0] + both[1], *remote(wanted)(gradient, *cotangents)
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
