"""Products that JAX has, with the gradients that float64 makes of the same numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import numpy as np
from jax import numpy as jnp

import aclgrad
import aclgrad.jax

_GENERATOR: Final = np.random.default_rng(12)


@dataclass(frozen=True)
class ProductCall:
    """A function with arrays of these shapes, and what it takes before and after them."""

    name: str
    shapes: tuple[tuple[int, ...], ...]
    before: tuple[Any, ...] = ()
    after: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return "-".join([self.name, *self.before, *("x".join(map(str, each)) for each in self.shapes)])

    @property
    def by(self) -> tuple[int, ...]:
        return tuple(range(len(self.shapes)))

    def arrays(self, *leading: int) -> list[np.ndarray]:
        return [_GENERATOR.standard_normal((*leading, *each), np.float32) for each in self.shapes]

    def ours(self, client: aclgrad.Client) -> Callable[..., jax.Array]:
        function = getattr(aclgrad.jax, self.name)
        return lambda *arrays: function(*self.before, *arrays, *self.after, client=client)

    def theirs(self, *arrays: Any) -> jax.Array:
        function = getattr(jax.lax if self.name == "dot_general" else jnp, self.name)
        return function(*self.before, *arrays, *self.after)


def _einsum(equation: str, *shapes: tuple[int, ...]) -> ProductCall:
    return ProductCall("einsum", shapes, (equation,))


PRODUCTS: Final = (
    ProductCall("matmul", ((3, 4), (4, 5))),
    ProductCall("matmul", ((4,), (4,))),
    ProductCall("matmul", ((4,), (2, 4, 5))),
    ProductCall("matmul", ((2, 3, 4), (4,))),
    ProductCall("matmul", ((2, 1, 3, 4), (5, 4, 6))),
    ProductCall("dot", ((2, 3, 4), (5, 4, 6))),
    ProductCall("dot", ((4,), (4,))),
    ProductCall("tensordot", ((2, 3, 4), (3, 4, 5))),
    ProductCall("tensordot", ((2, 3, 4), (4, 2, 5)), after=(((0, -1), (1, 0)),)),
    ProductCall("tensordot", ((2, 3), (4,)), after=(0,)),
    ProductCall("dot_general", ((2, 3, 4, 5), (5, 2, 7, 4)), after=((((3, 2), (0, 3)), ((0,), (1,))),)),
    ProductCall("dot_general", ((3, 2), (5, 3)), after=((((), ()), ((0,), (1,))),)),
    _einsum("ij,jk", (3, 4), (4, 5)),
    _einsum("bqhd,bkhd->bhqk", (2, 3, 2, 5), (2, 4, 2, 5)),
    _einsum("ii, ij -> j", (3, 3), (3, 4)),
    _einsum("...i,ij->...j", (2, 3, 4), (4, 5)),
    _einsum("ab,bc->ac", (2, 1), (3, 4)),
    _einsum("abc,bd->ad", (2, 3, 4), (3, 5)),
    _einsum("a,b->", (2,), (3,)),
    _einsum(",ab->ab", (), (2, 3)),
    _einsum("ab,cb->b", (2, 3), (4, 3)),
    _einsum("ni,oij,nj->no", (3, 4), (5, 4, 6), (3, 6)),
)
FIRST: Final = {each.name: each for each in reversed(PRODUCTS)}


def cubes(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays: (function(*arrays) ** 3).sum()


def penalty(function: Callable[..., Any], by: tuple[int, ...]) -> Callable[..., Any]:
    """Returns the square norm of the gradients."""
    gradients = jax.grad(cubes(function), by)
    return lambda *arrays: sum((each**2).sum() for each in gradients(*arrays))


def in_float64(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, function(*(jnp.asarray(each, jnp.float64) for each in arrays)))


def assert_close(found: Any, right: Any, tolerance: float = 1e-5) -> None:
    """Compares with the largest value, as sums are of terms that cancel."""
    for mine, each in zip(jax.tree.leaves(found), jax.tree.leaves(right), strict=True):
        assert mine.shape == each.shape
        largest = np.abs(each).max(initial=0)
        np.testing.assert_allclose(np.asarray(mine, np.float64), each, rtol=0, atol=tolerance * largest)
