"""The functions against PyTorch's: output and gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp
from torch.nn import functional

import aclgrad
import aclgrad.jax
from aclgrad.torch._roi_align import roi_align

GENERATOR = np.random.default_rng(4)
PLACES = np.stack([GENERATOR.permutation(96)[:12] for _ in range(6)]).reshape(2, 3, 2, 3, 2)
FLAT_PLACES = np.stack([GENERATOR.permutation(24)[:6] for _ in range(6)]).reshape(2, 3, 3, 2)
BOXES = np.array([[0, 1, 1, 6, 6.5], [1, -2, 0, 3, 3], [1, 0, 0, 9, 30], [0, 5, 5, 4, 4]], np.float32)
WINDOW: dict[str, Any] = {"kernel_size": (3, 2), "stride": (2, 1), "padding": 1, "ceil_mode": True}
IMAGES = (2, 3, 8, 9)
UNPOOL2D = partial(functional.max_unpool2d, kernel_size=2)
UNPOOL3D = partial(functional.max_unpool3d, kernel_size=2)

# The name, the input's shape, arrays beside it, the other arguments, and PyTorch's function if it has another name or
# arguments.
CALLS: tuple[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any], Callable[..., Any] | None], ...] = (
    ("adaptive_avg_pool2d", IMAGES, (), {"output_size": (3, None)}, None),
    ("adaptive_avg_pool2d", (3, 8, 9), (), {"output_size": 11}, None),
    ("adaptive_avg_pool3d", (1, 2, 4, 5, 6), (), {"output_size": (2, 3, 6)}, None),
    ("avg_pool2d", IMAGES, (), {"kernel_size": 2}, None),
    ("avg_pool2d", IMAGES, (), WINDOW, None),
    ("avg_pool2d", IMAGES, (), {**WINDOW, "count_include_pad": False}, None),
    ("avg_pool2d", IMAGES, (), {**WINDOW, "divisor_override": 5}, None),
    ("max_pool2d", IMAGES, (), {"kernel_size": 2}, None),
    ("max_pool2d", (3, 8, 9), (), WINDOW, None),
    ("max_unpool2d", (2, 3, 3, 2), (FLAT_PLACES,), {"output_size": (6, 4)}, UNPOOL2D),
    ("max_unpool3d", (2, 3, 2, 3, 2), (PLACES,), {"output_size": (4, 6, 4)}, UNPOOL3D),
    ("pad", (2, 3, 5), (), {"pad": (2, 1), "mode": "reflect"}, None),
    ("pad", IMAGES, (), {"pad": (1, 2, 3, 4), "mode": "replicate"}, None),
    ("pad", (1, 2, 3, 4, 5), (), {"pad": (1, 2, 0, 1, 2, 1), "mode": "reflect"}, None),
    ("interpolate", IMAGES, (), {"size": (16, 13)}, None),
    *((name, IMAGES, (), {}, None) for name in ("gelu", "hardswish", "leaky_relu", "relu", "sigmoid", "silu", "tanh")),
    ("swiglu", IMAGES, (), {"dim": 2}, lambda input, dim: functional.silu(input[:, :, :4]) * input[:, :, 4:]),
    ("gelu", IMAGES, (), {"approximate": "tanh"}, None),
    ("threshold", IMAGES, (), {"threshold": 0.2, "value": -1.0}, None),
    ("roi_align", IMAGES, (BOXES,), {"output_size": (2, 3), "spatial_scale": 0.8, "sampling_ratio": 2, "aligned": True},
     lambda input, boxes, **_: roi_align(input, boxes, 2, 3, 0.8, 2, True)),
    ("roi_align", IMAGES, (BOXES,), {"output_size": (2, 3), "sampling_ratio": 3},
     lambda input, boxes, **_: roi_align(input, boxes, 2, 3, 1.0, 3, False)),
)  # fmt: skip


def of_pytorch(
    function: Callable[..., Any], input: np.ndarray, others: tuple[Any, ...], options: Any
) -> tuple[Any, Any, Any]:
    """Returns the output, a gradient of it and the input's gradient."""
    leaf = torch.from_numpy(input).requires_grad_()
    output = function(leaf, *map(torch.from_numpy, others), **options)
    grad_output = torch.linspace(-1, 1, output.numel()).reshape(output.shape)
    output.backward(grad_output)
    return output.detach().numpy(), grad_output.numpy(), leaf.grad.numpy()


@pytest.mark.parametrize(
    ("name", "shape", "others", "options", "theirs"),
    CALLS,
    ids=[f"{call[0]}-{number}" for number, call in enumerate(CALLS)],
)
def test_output_and_gradient_are_those_of_pytorch(
    client: aclgrad.Client, name: str, shape: Any, others: Any, options: Any, theirs: Any
) -> None:
    input = np.random.default_rng(7).standard_normal(shape, np.float32)
    expected = of_pytorch(theirs or getattr(functional, name), input, others, options)
    function = jax.jit(lambda *arrays: getattr(aclgrad.jax, name)(*arrays, **options, client=client))
    output, pull = jax.vjp(lambda x: function(x, *others), input)
    (gradient,) = pull(expected[1])
    np.testing.assert_allclose(output, expected[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, expected[2], rtol=1e-4, atol=1e-5)


def loss(input: Any, client: aclgrad.Client) -> Any:
    return (aclgrad.jax.max_pool2d(input, 2, client=client) ** 2).sum()


def test_bfloat16_keeps_its_type(client: aclgrad.Client) -> None:
    input = jnp.arange(72, dtype=jnp.bfloat16).reshape(1, 2, 6, 6)
    gradient = jax.jit(jax.grad(partial(loss, client=client)))(input)
    assert gradient.dtype == jnp.bfloat16
    np.testing.assert_array_equal(gradient.astype(np.float32), of_pairs(np.asarray(input, np.float32)))


def of_pairs(input: np.ndarray) -> np.ndarray:
    """Of rising values, the last of each window is its maximum."""
    gradient = np.zeros_like(input)
    gradient[..., 1::2, 1::2] = 2 * input[..., 1::2, 1::2]
    return gradient


def test_indices_of_max_pooling_are_those_of_pytorch_and_a_source_of_unpooling(client: aclgrad.Client) -> None:
    # Among equal values, the first of the window; padding never wins, not even over -inf.
    images = np.random.default_rng(3).integers(-2, 2, IMAGES).astype(np.float32)
    images[images == -2] = -np.inf
    pooled, indices = aclgrad.jax.max_pool2d(images, **WINDOW, return_indices=True, client=client)
    expected = functional.max_pool2d(torch.from_numpy(images), **WINDOW, return_indices=True)
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


@pytest.mark.parametrize("scale", [2, (1.5, 3), (0.5, 1 / 3)])
def test_a_scale_that_makes_whole_sizes(client: aclgrad.Client, scale: Any) -> None:
    input = np.random.default_rng(7).standard_normal((1, 2, 4, 6), np.float32)
    options = {"scale_factor": tuple(map(float, scale)) if isinstance(scale, tuple) else scale}
    expected = of_pytorch(functional.interpolate, input, (), options)
    output, pull = jax.vjp(lambda x: aclgrad.jax.interpolate(x, **options, client=client), input)
    np.testing.assert_array_equal(output, expected[0])
    np.testing.assert_allclose(pull(expected[1])[0], expected[2], rtol=1e-5, atol=1e-5)


def test_nothing_is_compiled_for_a_gradient_that_was_computed_before(client: aclgrad.Client) -> None:
    compilations = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, duration, **_: compilations.append(event) if "backend_compile" in event else None
    )
    images = jnp.asarray(GENERATOR.standard_normal(IMAGES, np.float32))

    def gradient() -> Any:
        return jax.grad(lambda x: aclgrad.jax.max_pool2d(x, 2, client=client).sum())(images)

    first = gradient()
    assert compilations
    compilations.clear()
    for _ in range(3):
        np.testing.assert_array_equal(gradient(), first)
    assert compilations == []
    assert len(client.bridge_functions) == 1
    client.close()
    assert not client.bridge_functions


def test_functions_that_were_not_used_for_long_are_made_again(
    client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aclgrad._client.sync.bridge_functions.MOST", 2)
    images = jnp.asarray(GENERATOR.standard_normal(IMAGES, np.float32))
    gradient = jax.grad(lambda x: aclgrad.jax.avg_pool2d(x, 2, client=client).sum())
    found = [gradient(images[..., :size]) for size in (2, 4, 2, 6, 4)]
    assert len(client.bridge_functions) == 2
    for each in found:
        np.testing.assert_array_equal(each, np.full_like(each, 0.25))
