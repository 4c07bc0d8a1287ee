"""What is special of one function: indices of maxima, scales, running statistics, points that are no numbers."""

from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp
from torch.nn import functional

import aclgrad
import aclgrad.jax
from tests.jax.rows import Calls

GENERATOR = np.random.default_rng(4)
IMAGES = (2, 3, 8, 9)


def test_indices_of_max_pooling_are_those_of_pytorch_and_a_source_of_unpooling(client: aclgrad.Client) -> None:
    window: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "ceil_mode": True}
    # Among equal values, the first of the window; padding never wins, not even over -inf.
    images = np.random.default_rng(3).integers(-2, 2, IMAGES).astype(np.float32)
    images[images == -2] = -np.inf
    pooled, indices = aclgrad.jax.max_pool2d(images, **window, return_indices=True, client=client)
    expected = functional.max_pool2d(torch.from_numpy(images), **window, return_indices=True)
    np.testing.assert_array_equal(pooled, expected[0])
    np.testing.assert_array_equal(indices, expected[1])

    def unpooled(x: Any) -> Any:
        return aclgrad.jax.max_unpool2d(
            *aclgrad.jax.max_pool2d(x, 2, return_indices=True, client=client), (8, 9), client=client
        )

    image = np.random.default_rng(3).standard_normal(IMAGES, np.float32)
    kept = np.asarray(unpooled(image)) != 0
    assert kept.sum() == 2 * 3 * 4 * 4
    np.testing.assert_array_equal(jax.grad(lambda x: unpooled(x).sum())(image), kept)


@pytest.mark.parametrize("scale", [2, (1.5, 3.0), (0.5, 1 / 3)])
def test_a_scale_that_makes_whole_sizes(client: aclgrad.Client, scale: Any) -> None:
    input = np.random.default_rng(7).standard_normal((1, 2, 4, 6), np.float32)
    leaf = torch.from_numpy(input).requires_grad_()
    expected = functional.interpolate(leaf, scale_factor=scale)
    expected.pow(2).sum().backward()
    output, pull = jax.vjp(lambda x: aclgrad.jax.interpolate(x, scale_factor=scale, client=client), input)
    np.testing.assert_array_equal(output, expected.detach())
    np.testing.assert_allclose(pull(2 * output)[0], leaf.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(8, 18), (7, 4), (1, 9), (3, 1)])
def test_bilinear_interpolation_is_that_of_pytorch(
    client: aclgrad.Client, calls: Calls, size: tuple[int, int], align_corners: bool
) -> None:
    input = np.random.default_rng(7).standard_normal((2, 3, 4, 6), np.float32)
    options: Any = {"mode": "bilinear", "align_corners": align_corners}
    leaf = torch.from_numpy(input).double().requires_grad_()
    expected = functional.interpolate(leaf, size, **options)
    expected.pow(3).sum().backward()
    function = jax.jit(lambda x: aclgrad.jax.interpolate(x, size, **options, client=client))
    output, pull = jax.vjp(function, input)
    np.testing.assert_allclose(output, expected.detach(), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(pull(3 * output**2)[0], leaf.grad, rtol=1e-4, atol=1e-4)
    assert len(calls) == 1
    # Its gradient is linear, and so is the gradient of that one.
    (again,) = jax.vjp(lambda gradient: pull(gradient)[0], output)[1](jnp.asarray(input))
    np.testing.assert_allclose(again, output, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [(8, 18), (7, 9), (3, 2)])
def test_bilinear_interpolation_is_the_linear_resizing_of_jax(client: aclgrad.Client, size: tuple[int, int]) -> None:
    input = np.random.default_rng(7).standard_normal((2, 3, 4, 6), np.float32)

    def theirs(x: Any) -> Any:
        return jax.image.resize(x, (2, 3, *size), "linear", antialias=False)

    def ours(x: Any) -> Any:
        return aclgrad.jax.interpolate(x, size, mode="bilinear", client=client)

    one, other = (jax.vjp(each, input) for each in (ours, theirs))
    np.testing.assert_allclose(one[0], other[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(one[1](one[0])[0], other[1](one[0])[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("shape", "weights"), [((2, 3, 4), 3), ((2, 3, 4), 1), ((5,), 1), ((6, 3), 3)])
def test_prelu_has_the_gradients_of_both(
    client: aclgrad.Client, calls: Calls, shape: tuple[int, ...], weights: int
) -> None:
    arrays = GENERATOR.standard_normal(shape, np.float32), GENERATOR.standard_normal(weights, np.float32)

    def ours(*arrays: Any) -> Any:
        return (aclgrad.jax.prelu(*arrays, client=client) ** 3).sum()

    def theirs(*tensors: torch.Tensor) -> torch.Tensor:
        return (functional.prelu(*tensors) ** 3).sum()

    found = jax.block_until_ready(jax.jit(jax.grad(ours, (0, 1)))(*arrays))
    assert len(calls) == 1
    expected = torch.func.grad(theirs, (0, 1))(*(torch.from_numpy(each).double() for each in arrays))
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-4, atol=1e-4)
    many = np.stack([arrays[0], -arrays[0]])
    mapped = jax.vmap(jax.grad(ours), (0, None))(many, arrays[1])
    own = torch.vmap(torch.func.grad(theirs), (0, None))(*map(torch.from_numpy, (many, arrays[1])))
    np.testing.assert_allclose(mapped, own, rtol=1e-4, atol=1e-4)


def test_running_statistics_are_those_of_pytorch(client: aclgrad.Client) -> None:
    input = GENERATOR.standard_normal((4, 3, 5), np.float32)
    mean, var = np.zeros(3, np.float32), np.ones(3, np.float32)
    expected = torch.zeros(3), torch.ones(3)

    @jax.jit
    def step(*running: Any) -> Any:
        return aclgrad.jax.batch_norm(input, *running, training=True, momentum=0.3, client=client)

    for _ in range(2):
        output, mean, var = step(mean, var)
        theirs = functional.batch_norm(torch.from_numpy(input), *expected, training=True, momentum=0.3)
        np.testing.assert_allclose(output, theirs, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose((mean, var), torch.stack(expected), rtol=1e-5, atol=1e-6)
    same = aclgrad.jax.batch_norm(input, mean, var, client=client)
    np.testing.assert_array_equal(same[1:], (mean, var))
    none = aclgrad.jax.batch_norm(input[:0], mean, var, training=True, client=client)
    np.testing.assert_array_equal(none[1:], (mean, var))
    assert aclgrad.jax.batch_norm(input, None, None, training=True, client=client)[1:] == (None, None)


def test_grids_may_hold_any_numbers(client: aclgrad.Client) -> None:
    """Where a point is at no number, nothing is sampled, and nothing has a gradient."""
    image, grid = GENERATOR.standard_normal((1, 2, 3, 3), np.float32), np.zeros((1, 1, 3, 2), np.float32)
    grid[0, 0, 0, 0], grid[0, 0, 1] = np.nan, np.inf

    def function(*arrays: Any) -> Any:
        return aclgrad.jax.grid_sample(*arrays, client=client)

    np.testing.assert_array_equal(np.asarray(function(image, grid))[..., :2], 0)
    by_image, by_grid = jax.grad(lambda *each: function(*each).sum(), (0, 1))(image, grid)
    assert np.isfinite(by_image).all()
    np.testing.assert_array_equal(by_grid[0, 0, :2], 0)


def test_nothing_is_compiled_for_a_gradient_that_was_computed_before(unused_client: aclgrad.Client) -> None:
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compilations.append(event) if "backend_compile" in event else None
    )
    images = jnp.asarray(GENERATOR.standard_normal(IMAGES, np.float32))

    def gradient() -> Any:
        return jax.grad(lambda x: aclgrad.jax.max_pool2d(x, 2, client=unused_client).sum())(images)

    first = gradient()
    assert compilations
    compilations.clear()
    for _ in range(3):
        np.testing.assert_array_equal(gradient(), first)
    assert compilations == []
    assert len(unused_client.bridge_functions) == 1
    unused_client.close()
    assert not unused_client.bridge_functions


def test_functions_that_were_not_used_for_long_are_made_again(
    unused_client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclgrad._client.sync.bridge_functions.MOST", 2)
    images = jnp.asarray(GENERATOR.standard_normal(IMAGES, np.float32))
    gradient = jax.grad(lambda x: aclgrad.jax.avg_pool2d(x, 2, client=unused_client).sum())
    found = [gradient(images[..., :size]) for size in (2, 4, 2, 6, 4)]
    assert len(unused_client.bridge_functions) == 2
    for each in found:
        np.testing.assert_array_equal(each, np.full_like(each, 0.25))
