"""The functions under JAX's transformations: vmap, shard_map, jit of sharded arrays, scan, pmap, second derivatives."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

import aclgrad
import aclgrad.jax
from tests.jax.rows import BOXES, Calls

GENERATOR = np.random.default_rng(11)
IMAGES = (2, 3, 8, 9)


def images(*leading: int) -> np.ndarray:
    return GENERATOR.standard_normal((*leading, *IMAGES), np.float32)


def squares(client: aclgrad.Client, function: str, input: Any, *rest: Any) -> Any:
    return (getattr(aclgrad.jax, function)(input, *rest, client=client) ** 2).sum()


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None), (1, 0)])
def test_nested_vmaps_over_images_and_boxes_make_one_call(
    client: aclgrad.Client, calls: Calls, axes: tuple[int | None, int | None]
) -> None:
    """Boxes keep their images, those of images that do not exist too, whatever is mapped."""
    boxes = np.stack([BOXES + np.array([0, step, 0, step, 0]) for step in range(3)]).astype(np.float32)
    boxes[:, 3, 0] = 2
    gradient = jax.jit(jax.grad(lambda x, y: squares(client, "roi_align", x, y, 2)))
    inner = jax.vmap(gradient, in_axes=axes)
    input = images(2) if axes[0] is None else np.moveaxis(images(2, 3), 1, axes[0] + 1)
    given = boxes[0] if axes[1] is None else boxes
    found = np.asarray(jax.vmap(inner, in_axes=(0, None))(input, given))
    assert len(calls) == 1
    for first, second in np.ndindex(2, 3):
        image = input[first] if axes[0] is None else np.take(input[first], second, axes[0])
        alone = gradient(image, given if axes[1] is None else given[second])
        np.testing.assert_allclose(found[first, second], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "input", "others", "options"),
    [
        ("avg_pool2d", (0, 3, 8, 8), (), {"kernel_size": 2}),
        ("max_unpool2d", (0, 3, 4, 4), (np.zeros((0, 3, 4, 4), int),), {"output_size": (8, 8)}),
        ("roi_align", (2, 3, 8, 8), (np.zeros((0, 5), np.float32),), {"output_size": 2}),
        ("roi_align", (0, 3, 8, 8), (BOXES,), {"output_size": 2}),
    ],
)
def test_what_is_empty_has_a_gradient_of_zeros_without_a_call(
    client: aclgrad.Client, calls: Calls, name: str, input: tuple[int, ...], others: Any, options: Any
) -> None:
    function = jax.jit(lambda x: getattr(aclgrad.jax, name)(x, *others, **options, client=client).sum())
    gradient = jax.grad(function)
    np.testing.assert_array_equal(gradient(np.ones(input, np.float32)), np.zeros(input))
    assert jax.vmap(gradient)(np.ones((0, *input), np.float32)).shape == (0, *input)
    assert calls == []


@pytest.fixture
def mesh() -> Mesh:
    return Mesh(np.array(jax.devices()), ("card",))


@pytest.mark.parametrize("is_compiled", [True, False])
def test_shard_map_makes_a_call_for_each_shard(
    client: aclgrad.Client, calls: Calls, mesh: Mesh, is_compiled: bool
) -> None:
    input = images(4).reshape(8, 3, 8, 9)
    gradient = jax.grad(lambda x: squares(client, "max_pool2d", x, 2))
    sharded = jax.shard_map(gradient, mesh=mesh, in_specs=Spec("card"), out_specs=Spec("card"))
    found = np.asarray((jax.jit(sharded) if is_compiled else sharded)(input))
    assert len(calls) == 4
    np.testing.assert_allclose(found, gradient(input), rtol=1e-6)


def test_more_calls_at_once_than_jax_has_threads(client: aclgrad.Client, calls: Calls) -> None:
    """Arrays of more than 100 KB are those that JAX copies in its threads."""
    input = GENERATOR.standard_normal((16, 16, 32, 32), np.float32)
    gradient = jax.jit(jax.grad(lambda x: squares(client, "avg_pool2d", x, 2)))
    expected = np.asarray(gradient(input))
    with ThreadPoolExecutor(16) as threads:
        for found in threads.map(lambda _: np.asarray(gradient(input)), range(32)):
            np.testing.assert_array_equal(found, expected)
    assert len(calls) == 33


def test_jit_of_sharded_arrays_gathers_them(client: aclgrad.Client, calls: Calls, mesh: Mesh) -> None:
    """Devices of the CPU make the same call each."""
    input = images(4).reshape(8, 3, 8, 9)
    gradient = jax.jit(jax.grad(lambda x: squares(client, "avg_pool2d", x, 2)))
    found = np.asarray(gradient(jax.device_put(input, NamedSharding(mesh, Spec("card")))))
    assert len(calls) == 4
    np.testing.assert_allclose(found, gradient(input), rtol=1e-6)


def test_scan_and_pmap_make_a_call_for_each_step_or_device(client: aclgrad.Client, calls: Calls) -> None:
    input = images(4)
    gradient = jax.grad(lambda x: squares(client, "avg_pool2d", x, 2))
    scanned = np.asarray(jax.lax.scan(lambda carry, x: (carry, gradient(x)), 0, input)[1])
    assert len(calls) == 4
    np.testing.assert_allclose(scanned, jax.pmap(gradient)(input), rtol=1e-6)
    assert len(calls) == 8
    np.testing.assert_allclose(scanned, jax.vmap(gradient)(input), rtol=1e-6)


@pytest.mark.parametrize("name", ["avg_pool2d", "max_pool2d"])
def test_second_derivatives(client: aclgrad.Client, calls: Calls, name: str) -> None:
    """The penalty of WGAN-GP: the derivative of a gradient's norm, against finite differences."""

    def penalty(x: Any) -> Any:
        gradient = jax.grad(lambda y: (getattr(aclgrad.jax, name)(y, 2, client=client) ** 3).sum())(x)
        return (gradient**2).sum()

    input = jnp.asarray(np.random.default_rng(2).permutation(32).reshape(1, 2, 4, 4) / 8, jnp.float32)
    direction = GENERATOR.standard_normal(input.shape, np.float32) / 8
    slope = (np.asarray(jax.grad(penalty)(input)) * direction).sum()
    assert len(calls) == 2
    difference = (penalty(input + direction / 8) - penalty(input - direction / 8)) * 4
    np.testing.assert_allclose(slope, difference, rtol=2e-2)
