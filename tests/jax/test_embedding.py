"""embedding, against JAX's own gradient."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import aclgrad
import aclgrad.jax

INDICES = np.array([[1, 0, 3], [1, 2, 1]])
WEIGHT = np.random.default_rng(1).standard_normal((4, 5), np.float32)


def loss(weight: Any, **options: Any) -> Any:
    return (aclgrad.jax.embedding(INDICES, weight, **options) ** 3).sum()


@pytest.mark.parametrize("padding", [None, 1, -1])
def test_the_gradient_of_jax_in_one_call(client: aclgrad.Client, calls: list[str], padding: int | None) -> None:
    expected = np.array(jax.grad(lambda weight: (weight[INDICES] ** 3).sum())(WEIGHT))
    if padding is not None:
        expected[padding] = 0
    for function in (jax.grad(loss), jax.jit(jax.grad(loss), static_argnames=("padding_idx", "client"))):
        found = function(WEIGHT, padding_idx=padding, client=client)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(calls) == 2


def test_vmap_makes_a_call_for_each(client: aclgrad.Client, calls: list[str]) -> None:
    many = np.stack([WEIGHT, 2 * WEIGHT])
    found = jax.vmap(jax.grad(lambda each: loss(each, client=client)))(many)
    expected = jax.vmap(jax.grad(lambda weight: (weight[INDICES] ** 3).sum()))(many)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert len(calls) == 2


def test_what_is_refused(client: aclgrad.Client) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match="padding_idx"):
        aclgrad.jax.embedding(INDICES, WEIGHT, 4, client=client)
    with pytest.raises(aclgrad.InvalidFieldError, match=r"give \(rows, columns\)"):
        aclgrad.jax.embedding(INDICES, WEIGHT[0], client=client)
    with pytest.raises(Exception, match="indices"):
        jax.block_until_ready(
            jax.grad(lambda weight: aclgrad.jax.embedding(jnp.array([9]), weight, client=client).sum())(WEIGHT)
        )
