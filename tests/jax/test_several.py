"""Functions with gradients of several arguments, against PyTorch's and against JAX's own gradients."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest
import torch
from jax import numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec
from torch.nn import functional

import aclgrad
import aclgrad.jax
from aclgrad.jax import _nonlinear
from tests.torch.several import SEVERAL, Several, batch_norm, grid_sample, group_norm, layer_norm, rms_norm

GENERATOR = np.random.default_rng(8)
ONE_OF_EACH = (
    layer_norm((2, 3, 5)), batch_norm((2, 3, 4), training=True, statistics=False), grid_sample(), rms_norm((2, 3, 5)),
    group_norm((2, 4, 5), 2),
)  # fmt: skip
OWN = {
    "layer_norm": partial(_nonlinear.layer_norm, normalized_shape=(5,), eps=1e-5),
    "rms_norm": lambda arrays: _nonlinear.rms_norm(
        {"input": arrays["input"], "gamma": arrays["weight"]}, eps=float(np.finfo(np.float32).eps)
    ),
    "group_norm": lambda arrays: _nonlinear.group_norm(
        {"gamma" if name == "weight" else name: each for name, each in arrays.items()}, group=2, eps=1e-5
    ),
    "batch_norm": partial(_nonlinear.batch_norm, training=True, momentum=0.1, eps=1e-5),
    "grid_sample": partial(_nonlinear.grid_sample, interpolation_mode=0, padding_mode=0, align_corners=False),
}


def arrays_of(call: Several) -> list[np.ndarray]:
    return [each.numpy() for each in call.values if each is not None]


def remote(call: Several, client: aclgrad.Client) -> Callable[..., jax.Array]:
    names = [name for name, each in zip(call.tensors, call.values, strict=True) if each is not None]
    options = {name: each.numpy() if hasattr(each, "numpy") else each for name, each in call.options.items()}

    def function(*arrays: Any) -> jax.Array:
        given = dict(zip(names, arrays, strict=True))
        result = getattr(aclgrad.jax, call.function)(**given, **options, client=client)
        return result[0] if isinstance(result, tuple) else result

    return function


def own(call: Several) -> Callable[..., jax.Array]:
    """Returns the same forward pass with the gradient of JAX."""
    return lambda *arrays: OWN[call.function](dict(zip(call.tensors, arrays, strict=True)))[0][0]


def loss(function: Callable[..., jax.Array]) -> Callable[..., Any]:
    return lambda *arrays: (function(*arrays) ** 3).sum()


@pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("call", SEVERAL, ids=str)
def test_output_and_gradients_are_those_of_pytorch_in_one_call(
    client: aclgrad.Client, calls: list[str], call: Several, is_compiled: bool
) -> None:
    expected = [each for each in call.gradients(call.leaves()) if each is not None]
    function = jax.jit(remote(call, client)) if is_compiled else remote(call, client)
    output, pull = jax.vjp(function, *arrays_of(call))
    gradients = jax.block_until_ready(pull(jnp.linspace(-1, 2, output.size).reshape(output.shape)))
    assert len(calls) == (1 if output.size else 0)
    for found, theirs in zip([output, *gradients], expected, strict=True):
        np.testing.assert_allclose(found, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_only_what_jax_differentiates_is_wanted(
    client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch, call: Several
) -> None:
    wanted: list[Any] = []
    execute = client.execute

    def note(*args: Any, **options: Any) -> Any:
        wanted.append(options["outputs"])
        return execute(*args, **options)

    monkeypatch.setattr(client, "execute", note)
    arrays = arrays_of(call)
    for by, name in enumerate(call.outputs):
        found = jax.jit(jax.grad(loss(remote(call, client)), by))(*arrays)
        np.testing.assert_allclose(found, jax.grad(loss(own(call)), by)(*arrays), rtol=1e-3, atol=1e-3)
        assert wanted.pop() == [name]
    assert remote(call, client)(*arrays).shape == call.bound()(*call.values).shape
    assert wanted == []


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("is_wide", [True, False])
def test_gradients_have_the_types_of_their_arguments(client: aclgrad.Client, dtype: Any, is_wide: bool) -> None:
    for call in ONE_OF_EACH[:2]:
        arrays = [jnp.asarray(each) for each in arrays_of(call)]
        given = [each.astype(jnp.float32 if is_wide and place else dtype) for place, each in enumerate(arrays)]
        found = jax.grad(loss(remote(call, client)), (0, 1, 2))(*given)
        assert [each.dtype for each in found] == [each.dtype for each in given]
        for mine, theirs in zip(found, jax.grad(loss(own(call)), (0, 1, 2))(*given), strict=True):
            np.testing.assert_allclose(
                np.asarray(mine, np.float32), np.asarray(theirs, np.float32), rtol=0.06, atol=0.3
            )


# Of layer_norm, gradients of parameters are sums over a call, and parameters are one for each.
CALLS_OF_VMAP = {
    (0, (0,), (0, None, None)): 1,
    (0, (0,), (1, 0, None)): 3,
    (0, (0, 1, 2), (0, None, None)): 3,
    (0, (1, 2), (None, 0, 0)): 3,
    (1, (0,), (0, None, None)): 1,
    (1, (0, 1, 2), (0, None, None)): 1,
    (1, (0, 1, 2), (1, 0, 0)): 1,
    (4, (0, 1, 2), (0, None, None)): 3,
    (3, (0,), (0, None)): 1,
    (3, (0, 1), (0, None)): 3,
    (2, (0, 1), (0, 0)): 1,
    (2, (0, 1), (0, None)): 1,
    (2, (1,), (None, 0)): 1,
}


@pytest.mark.parametrize(("number", "by", "in_axes"), CALLS_OF_VMAP, ids=str)
def test_vmap(client: aclgrad.Client, calls: list[str], number: int, by: tuple[int, ...], in_axes: Any) -> None:
    call = ONE_OF_EACH[number]
    mapped = [
        each if axis is None else np.stack([each, each[::-1], each * 0.9], axis)
        for each, axis in zip(arrays_of(call), in_axes, strict=True)
    ]
    found, expected = (
        jax.vmap(jax.grad(loss(function), by), in_axes)(*mapped) for function in (remote(call, client), own(call))
    )
    assert len(calls) == CALLS_OF_VMAP[number, by, in_axes]
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_nested_vmaps_and_the_gradient_of_a_vmap(client: aclgrad.Client, calls: list[str], call: Several) -> None:
    first, *rest = arrays_of(call)
    many = GENERATOR.standard_normal((2, 3, *first.shape), np.float32)

    def found(function: Callable[..., jax.Array]) -> Any:
        nested = jax.vmap(jax.vmap(jax.grad(loss(function)), (0, *[None] * len(rest))), (0, *[None] * len(rest)))
        total = jax.grad(lambda *each: loss(jax.vmap(lambda x: function(x, *each[1:])))(each[0]), (0, 1))
        return nested(many, *rest), *total(many[0], *rest)

    mine = found(remote(call, client))
    assert len(calls) in {2, 4, 9}
    for each, theirs in zip(mine, found(own(call)), strict=True):
        np.testing.assert_allclose(each, theirs, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_a_second_derivative_is_refused(client: aclgrad.Client, call: Several) -> None:
    first = jax.grad(loss(remote(call, client)))
    with pytest.raises(aclgrad.InvalidFieldError, match=f"{call.function} has no second derivative"):
        jax.grad(lambda *arrays: first(*arrays).sum())(*arrays_of(call))


@pytest.mark.parametrize("call", ONE_OF_EACH[:2], ids=str)
def test_shard_map_sums_the_gradients_of_parameters(client: aclgrad.Client, call: Several) -> None:
    """Each device normalises a part of the batch, with the same parameters."""
    mesh = Mesh(np.array(jax.devices()), ("card",))
    images, weight, bias = GENERATOR.standard_normal((8, 3, 5), np.float32), *arrays_of(call)[1:]

    def gradient(function: Callable[..., jax.Array]) -> Any:
        def total(*arrays: Any) -> Any:
            return jax.lax.psum(loss(function)(*arrays), "card")

        sharded = jax.shard_map(total, mesh=mesh, in_specs=(Spec("card"), Spec(), Spec()), out_specs=Spec())
        return jax.jit(jax.grad(sharded, (0, 1, 2)))(images, weight, bias)

    for mine, theirs in zip(gradient(remote(call, client)), gradient(own(call)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3)


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
    function = partial(aclgrad.jax.grid_sample, client=client)
    np.testing.assert_array_equal(np.asarray(function(image, grid))[..., :2], 0)
    by_image, by_grid = jax.grad(lambda *each: function(*each).sum(), (0, 1))(image, grid)
    assert np.isfinite(by_image).all()
    np.testing.assert_array_equal(by_grid[0, 0, :2], 0)


PLANES = np.ones((2, 3, 4), np.float32)
IMAGES, GRID, THREE = np.ones((2, 3, 4, 4), np.float32), np.zeros((2, 5, 5, 2), np.float32), np.ones(3, np.float32)
REFUSED: tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...] = (
    ("layer_norm", (PLANES, (3,)), {}, r"normalized_shape is \(3,\) for an input of \(2, 3, 4\); give its last sizes"),
    ("layer_norm", (PLANES, ()), {}, r"normalized_shape is \(\)"),
    ("layer_norm", (PLANES, 4, THREE), {}, r"weight.shape is \(3,\); give \(4,\)"),
    ("layer_norm", (PLANES, 4, None, THREE), {}, r"bias.shape is \(3,\); give \(4,\)"),
    ("layer_norm", (PLANES, 4, [1.0]), {}, "weight is a list; give a jax.Array"),
    ("layer_norm", (PLANES, 4), {"eps": 0.0}, "eps is 0.0; give a number above 0"),
    ("layer_norm", (PLANES.astype(np.int32), 4), {}, "input is int32; give float32"),
    ("layer_norm", (PLANES, 4, np.ones(4, np.float16)), {}, "weight.data_type is float16"),
    ("batch_norm", (PLANES, THREE, THREE[:2]), {}, r"running_var.shape is \(2,\); give \(3,\)"),
    ("batch_norm", (PLANES, None, None), {}, "running_mean is None; give both running statistics"),
    ("batch_norm", (PLANES, THREE, None), {"training": True}, "running_var is None; give both"),
    ("batch_norm", (PLANES[:1, :, :1], None, None), {"training": True}, "input.shape is .* one value per channel"),
    ("batch_norm", (PLANES, THREE, THREE), {"training": 1}, "training is 1; give a bool"),
    ("batch_norm", (THREE, THREE, THREE), {}, r"input.shape is \(3,\); give 2"),
    ("grid_sample", (IMAGES, GRID, "bicubic"), {}, "mode is 'bicubic'; give 'bilinear' or 'nearest'"),
    ("grid_sample", (IMAGES, GRID), {"padding_mode": "mirror"}, "padding_mode is 'mirror'; give 'zeros'"),
    ("grid_sample", (IMAGES, GRID[:1]), {}, r"grid.shape is \(1, 5, 5, 2\); give \(2, 5, 5, 2\)"),
    ("grid_sample", (IMAGES, GRID[0]), {}, r"grid.shape is \(5, 5, 2\); give 4 dimensions"),
    ("grid_sample", (IMAGES, GRID.astype(np.float16)), {}, "grid.data_type is float16"),
    ("grid_sample", (IMAGES, GRID), {"align_corners": 1}, "align_corners is 1; send a bool"),
)


@pytest.mark.parametrize(("name", "arguments", "options", "message"), REFUSED)
def test_arguments_are_refused_by_name_in_the_forward_pass(
    client: aclgrad.Client, name: str, arguments: tuple[Any, ...], options: Any, message: str
) -> None:
    call = partial(getattr(aclgrad.jax, name), client=client, **options)
    with pytest.raises(aclgrad.InvalidFieldError, match=f"^{message}"):
        call(*arguments)
    if isinstance(arguments[0], np.ndarray):
        with pytest.raises(aclgrad.InvalidFieldError, match=f"^{message}"):
            jax.eval_shape(lambda x: call(x, *arguments[1:]), arguments[0])
    assert not client.bridge_functions
