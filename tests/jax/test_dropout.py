"""Dropout: JAX draws, and the gradient is the card's."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import aclgrad
import aclgrad.jax
from tests.jax.formulas import drawn
from tests.jax.rows import Calls

KEY = jax.random.key(3)


@pytest.mark.parametrize("shape", [(3, 43), (128,), ()])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_what_is_kept_is_what_jax_draws(client: aclgrad.Client, calls: Calls, shape: Any, rate: float) -> None:
    input = drawn(*shape)
    kept = np.asarray(jax.random.bernoulli(KEY, 1 - rate, shape))
    output, pull = jax.vjp(lambda x: aclgrad.jax.dropout(x, rate, key=KEY, client=client), input)
    np.testing.assert_allclose(output, np.where(kept, input / (1 - rate), 0), rtol=1e-6)
    (gradient,) = pull(jnp.asarray(2 * input))
    np.testing.assert_allclose(gradient, np.where(kept, 2 * input / (1 - rate), 0), rtol=1e-6)
    assert [name for name, _ in calls] == ["dropout_do_mask"]


def test_the_second_derivative_is_another_call(client: aclgrad.Client, calls: Calls) -> None:
    input, kept = drawn(5, 7), np.asarray(jax.random.bernoulli(KEY, 0.7, (5, 7)))

    def penalty(x: Any) -> Any:
        return (jax.grad(lambda y: (aclgrad.jax.dropout(y, 0.3, key=KEY, client=client) ** 3).sum())(x) ** 2).sum()

    found = jax.jit(jax.grad(penalty))(input)
    # (3 s^3 x^2)^2 has the derivative 36 s^6 x^3.
    np.testing.assert_allclose(found, 36 / 0.7**6 * kept * input**3, rtol=1e-4)
    assert len(calls) >= 2


@pytest.mark.parametrize("is_common", [False, True])
def test_vmap_makes_one_call(client: aclgrad.Client, calls: Calls, is_common: bool) -> None:
    """Elements whose bits do not fill bytes are joined before they are packed."""
    many, keys = drawn(3, 5), jax.random.split(KEY, 3)
    gradient = jax.grad(lambda x, key: aclgrad.jax.dropout(x, 0.4, key=key, client=client).sum())
    found = jax.jit(jax.vmap(gradient, (0, None if is_common else 0)))(many, KEY if is_common else keys)
    for place, each in enumerate(found):
        kept = jax.random.bernoulli(KEY if is_common else keys[place], 0.6, (5,))
        np.testing.assert_allclose(each, kept / 0.6, rtol=1e-6)
    assert len(calls) == 1


def test_cards_round_the_share_that_is_kept(client: aclgrad.Client) -> None:
    input = jnp.asarray(drawn(40), jnp.bfloat16)
    output, pull = jax.vjp(lambda x: aclgrad.jax.dropout(x, 0.1, key=KEY, client=client), input)
    found = np.asarray(pull(jnp.ones_like(output))[0], np.float32)
    # 0.9 is 0.8984375 in bfloat16.
    assert set(found.tolist()) == {0.0, float(jnp.asarray(1 / 0.8984375, jnp.bfloat16))}


def test_nothing_is_sent_where_all_or_nothing_is_dropped(client: aclgrad.Client, calls: Calls) -> None:
    for rate in (0, 1.0):
        gradient = jax.grad(lambda x, rate=rate: aclgrad.jax.dropout(x, rate, key=KEY, client=client).sum())
        np.testing.assert_array_equal(gradient(drawn(3, 4)), np.full((3, 4), 1 - rate))
    assert calls == []


@pytest.mark.parametrize(
    ("input", "rate", "message"),
    [
        ([1.0], 0.5, "input is a list; give a jax.Array"),
        (np.ones(3, np.int32), 0.5, "input is int32; give float32"),
        (np.ones(3, np.float32), -0.1, "rate is -0.1; give a number from 0 to 1"),
        (np.ones(3, np.float32), np.nan, "rate is nan; give a number from 0 to 1"),
        (np.ones(3, np.float32), "0.5", "rate is '0.5'; give a number from 0 to 1"),
        (np.ones(3, np.float16), 1 - 1e-9, "rate is .*holds no"),
    ],
)
def test_arguments_are_refused_by_name(client: aclgrad.Client, input: Any, rate: Any, message: str) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=f"^{message}"):
        aclgrad.jax.dropout(input, rate, key=KEY, client=client)
