"""Activations and losses against the gradients that JAX has of the same formulas in float64."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

import aclgrad
import aclgrad.jax
from tests.jax.formulas import FIRST_FORMULA, FORMULAS, LOSSES, SHAPE, FormulaCall, drawn, shares
from tests.jax.products import assert_close, cubes, in_float64
from tests.jax.rows import Calls


def right(call: FormulaCall, *arrays: Any) -> Any:
    """Returns the value and the gradients in float64."""
    return in_float64(jax.value_and_grad(cubes(call.right), call.by), *arrays)


@pytest.mark.parametrize("call", FORMULAS, ids=str)
def test_values_and_gradients_are_those_of_the_formula_in_one_call(
    client: aclgrad.Client, calls: Calls, call: FormulaCall
) -> None:
    found = jax.jit(jax.value_and_grad(cubes(call.ours(client)), call.by))(*call.arrays)
    assert_close(found, right(call, *call.arrays))
    assert [name for name, _ in calls] == [call.operator]


@pytest.mark.parametrize("call", FIRST_FORMULA.values(), ids=str)
def test_halves_have_gradients_of_their_own_dtype(client: aclgrad.Client, call: FormulaCall) -> None:
    own = [jnp.asarray(each, jnp.bfloat16 if each.dtype.kind == "f" else each.dtype) for each in call.arrays]
    found = jax.jit(jax.grad(lambda *arrays: call.ours(client)(*arrays).sum(), call.by))(*own)
    assert {each.dtype for each in found} == {jnp.dtype(jnp.bfloat16)}
    wide = [np.asarray(each, np.float64) for each in own]
    assert_close(found, in_float64(jax.grad(lambda *arrays: call.right(*arrays).sum(), call.by), *wide), 0.02)


@pytest.mark.parametrize("call", FIRST_FORMULA.values(), ids=str)
def test_vmap_makes_one_call(client: aclgrad.Client, calls: Calls, call: FormulaCall) -> None:
    many = [np.stack([each, each[::-1]]) for each in call.arrays]
    gradients = jax.grad(cubes(call.ours(client)), call.by)
    found = jax.block_until_ready(jax.jit(jax.vmap(jax.vmap(gradients)))(*(each[:, None] for each in many)))
    assert len(calls) == 1
    for place, mine in enumerate(zip(*(np.asarray(each)[:, 0] for each in found), strict=True)):
        assert_close(mine, right(call, *(each[place] for each in many))[1])


@pytest.mark.parametrize("call", LOSSES[:6], ids=str)
def test_targets_that_all_elements_share_are_mapped_with_them(
    client: aclgrad.Client, calls: Calls, call: FormulaCall
) -> None:
    axes = (0, *[None] * (len(call.arrays) - 1))
    many = drawn(2, *SHAPE)
    found = jax.vmap(jax.grad(cubes(call.ours(client))), axes)(many, *call.arrays[1:])
    for mine, each in zip(found, many, strict=True):
        assert_close(mine, right(call, each, *call.arrays[1:])[1][0])
    assert len(calls) == 1


def test_targets_alone_need_no_call(client: aclgrad.Client, calls: Calls) -> None:
    call = FIRST_FORMULA["kl_divergence"]
    found = jax.grad(cubes(call.ours(client)), 1)(*call.arrays)
    assert_close(found, in_float64(jax.grad(cubes(call.right), 1), *call.arrays))
    assert calls == []


def test_a_divergence_of_targets_that_are_0(client: aclgrad.Client) -> None:
    targets = shares(3, 4)
    targets[:, 1] = 0
    value, gradient = jax.value_and_grad(lambda x: aclgrad.jax.kl_divergence(x, targets, client=client).sum())(
        drawn(3, 4)
    )
    np.testing.assert_array_equal(gradient, -targets)
    assert np.isfinite(value)


def test_shard_map_computes_each_part(client: aclgrad.Client) -> None:
    call, mesh = FIRST_FORMULA["huber_loss"], Mesh(np.array(jax.devices()), ("card",))
    arrays = drawn(8, 5), drawn(8, 5)

    def total(*parts: Any) -> Any:
        return jax.lax.psum(cubes(call.ours(client))(*parts), "card")

    sharded = jax.shard_map(total, mesh=mesh, in_specs=(Spec("card"), Spec("card")), out_specs=Spec())
    assert_close(jax.jit(jax.grad(sharded, (0, 1)))(*arrays), right(call, *arrays)[1])


def test_a_second_derivative_is_refused(client: aclgrad.Client) -> None:
    call = FIRST_FORMULA["l2_loss"]
    first = jax.grad(cubes(call.ours(client)))
    with pytest.raises(aclgrad.InvalidFieldError, match="has no second derivative"):
        jax.grad(lambda *arrays: first(*arrays).sum())(*call.arrays)


ROWS = np.ones((3, 4), np.float32)
REFUSED: tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...] = (
    ("elu", ([1.0],), {}, "input is a list; give a jax.Array"),
    ("elu", (ROWS.astype(int),), {}, "input is int32; give float32"),
    ("elu", (ROWS, np.nan), {}, "alpha is nan"),
    ("celu", (ROWS, 0), {}, "alpha is 0; give a number that is not 0"),
    ("hardshrink", (ROWS, -1.0), {}, "lambd is -1.0; send at least 0"),
    ("squared_error", ([1.0],), {}, "predictions is a list; give a jax.Array"),
    ("squared_error", (ROWS, 1.0), {}, "targets is a float; give a jax.Array"),
    ("squared_error", (ROWS.astype(int),), {}, "predictions is int32; give float32"),
    ("huber_loss", (ROWS, ROWS[:1]), {}, r"targets.shape is \(1, 4\); give \(3, 4\)"),
    ("huber_loss", (ROWS, ROWS, 0.0), {}, "delta is 0.0; give a number of at least 1e-06"),
    ("huber_loss", (ROWS, ROWS, np.nan), {}, "delta is nan"),
    ("sigmoid_binary_cross_entropy", (ROWS, ROWS[0]), {}, r"labels.shape is \(4,\); give \(3, 4\)"),
)


@pytest.mark.parametrize(("name", "arguments", "options", "message"), REFUSED)
def test_arguments_are_refused_by_name(
    client: aclgrad.Client, name: str, arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=f"^{message}"):
        getattr(aclgrad.jax, name)(*arguments, **options, client=client)
