"""softmax and log_softmax, against JAX's own gradients."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import aclgrad
import aclgrad.jax

NAMES = ("softmax", "log_softmax")


def loss(function: Any, axis: int, **more: Any) -> Any:
    return lambda array: (function(array, axis, **more) ** 3).sum()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("shape", "dim"), [((3, 5), 1), ((3, 5), -2), ((2, 3, 4), 1), ((6,), 0), ((0, 3), 1)], ids=str)
def test_gradients_are_those_of_jax_in_one_call(
    client: aclgrad.Client, calls: list[str], name: str, shape: tuple[int, ...], dim: int
) -> None:
    values = np.random.default_rng(1).standard_normal(shape, np.float32)
    remote = jax.grad(loss(getattr(aclgrad.jax, name), dim, client=client))
    expected = jax.grad(loss(getattr(jax.nn, name), dim))(values)
    for function in (remote, jax.jit(remote)):
        np.testing.assert_allclose(function(values), expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == (2 if values.size else 0)


@pytest.mark.parametrize("name", NAMES)
def test_vmap_makes_one_call(client: aclgrad.Client, calls: list[str], name: str) -> None:
    values = np.random.default_rng(2).standard_normal((4, 2, 3, 5), np.float32)
    found = jax.vmap(jax.vmap(jax.grad(loss(getattr(aclgrad.jax, name), 0, client=client))))(values)
    expected = jax.vmap(jax.vmap(jax.grad(loss(getattr(jax.nn, name), 0))))(values)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert len(calls) == 1


@pytest.mark.parametrize("name", NAMES)
def test_types(client: aclgrad.Client, name: str) -> None:
    values = jnp.linspace(-2, 2, 12).reshape(3, 4)
    for dtype in (jnp.bfloat16, jnp.float16):
        found = jax.grad(loss(getattr(aclgrad.jax, name), 1, client=client))(values.astype(dtype))
        assert found.dtype == dtype
        expected = jax.grad(loss(getattr(jax.nn, name), 1))(values.astype(dtype).astype(jnp.float32))
        np.testing.assert_allclose(found.astype(jnp.float32), expected, rtol=0.06, atol=0.06)


@pytest.mark.parametrize("dim", [2, -3, True, None, 0.5])
def test_an_axis_that_there_is_not(client: aclgrad.Client, dim: Any) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=r"dim is .* for an input of \(2, 3\); give -2 to 1"):
        aclgrad.jax.softmax(jnp.ones((2, 3)), dim, client=client)
