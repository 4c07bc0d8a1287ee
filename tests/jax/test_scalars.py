"""Gradients at a scalar, against JAX's own and against finite differences in float64."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import aclgrad
import aclgrad.jax

# By name: the other arguments, and JAX's own function of a scalar.
FUNCTIONS: dict[str, tuple[dict[str, Any], Callable[[Any], Any]]] = {
    "gelu": ({}, partial(jax.nn.gelu, approximate=False)),
    "hardswish": ({}, jax.nn.hard_swish),
    "leaky_relu": ({"negative_slope": 0.3}, partial(jax.nn.leaky_relu, negative_slope=0.3)),
    "relu": ({}, jax.nn.relu),
    "sigmoid": ({}, jax.nn.sigmoid),
    "silu": ({}, jax.nn.silu),
    "tanh": ({}, jnp.tanh),
    "threshold": ({"threshold": 0.2, "value": -1.0}, lambda x: jnp.where(x > 0.2, x, -1.0)),
    "softmax": ({"dim": 0}, lambda x: jax.nn.softmax(x[None])[0]),
    "log_softmax": ({"dim": -1}, lambda x: jax.nn.log_softmax(x[None])[0]),
}


def test_the_gradient_of_silu_by_its_formula(client: aclgrad.Client) -> None:
    sigmoid = 1 / (1 + np.exp(-0.7))
    expected = sigmoid * (1 + 0.7 * (1 - sigmoid))
    assert float(jax.grad(partial(aclgrad.jax.silu, client=client))(0.7)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("value", [0.7, -0.4])
def test_a_function_at_a_scalar(client: aclgrad.Client, calls: list[str], name: str, value: float) -> None:
    options, theirs = FUNCTIONS[name]
    ours = partial(getattr(aclgrad.jax, name), **options, client=client)
    expected = np.asarray(jax.grad(theirs)(value))
    with jax.enable_x64(True):
        difference = (theirs(jnp.float64(value + 1e-4)) - theirs(jnp.float64(value - 1e-4))) / 2e-4
    np.testing.assert_allclose(expected, difference, rtol=1e-4, atol=1e-6)
    gradient = jax.grad(ours)
    for found in (
        gradient(value),
        jax.jit(gradient)(value),
        gradient(np.float32(value)),
        jax.vjp(ours, value)[1](1.0)[0],
    ):
        assert found.shape == ()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours(jnp.float32(value)), theirs(jnp.float32(value)), rtol=1e-6)
    assert len(calls) == 4


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vmap_of_scalars(client: aclgrad.Client, calls: list[str], name: str) -> None:
    """The axis of vmap is not theirs: softmax of one number is 1, and its gradient 0."""
    options, theirs = FUNCTIONS[name]
    ours = partial(getattr(aclgrad.jax, name), **options, client=client)
    values = jnp.linspace(-2.1, 2.9, 6)  # beside the kinks
    for function in (jax.vmap, lambda each: jax.jit(jax.vmap(each))):
        np.testing.assert_allclose(function(ours)(values), function(theirs)(values), rtol=1e-6)
        found = function(jax.grad(ours))(values)
        np.testing.assert_allclose(found, function(jax.grad(theirs))(values), rtol=1e-5, atol=1e-6)
    many = values.reshape(2, 3)
    found = jax.vmap(jax.vmap(jax.grad(ours)))(many)
    np.testing.assert_allclose(found, jax.vmap(jax.vmap(jax.grad(theirs)))(many), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.lax.map(jax.grad(ours), values), jax.lax.map(jax.grad(theirs), values), atol=1e-6)
    assert len(calls) == 3 + values.size
