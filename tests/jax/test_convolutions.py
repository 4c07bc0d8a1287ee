"""Convolutions and their gradients of several orders against JAX in float64, transformations, and what is refused."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as Spec

import aclgrad
import aclgrad.jax
from aclgrad.testing import serve
from aclgrad.units import size
from tests.jax.convolutions import CONVOLUTIONS, ConvolutionCall
from tests.jax.products import assert_close, cubes, in_float64, penalty

Programs = list[aclgrad.Program]
BY_ID = {each.id: each for each in CONVOLUTIONS}
FEW = [BY_ID[each] for each in ("channels last", "groups", "groups transposed")]
UNPADDED = [BY_ID[each] for each in ("channels last", "groups transposed", "volume")]
IMAGES, KERNELS = np.ones((2, 3, 5, 5), np.float32), np.ones((4, 3, 3, 3), np.float32)


@pytest.mark.parametrize("call", CONVOLUTIONS, ids=str)
def test_result_and_gradients_are_those_of_jax_in_one_message(
    client: aclgrad.Client, programs: Programs, call: ConvolutionCall
) -> None:
    arrays, ours = call.arrays(), call.ours(client)
    found = jax.jit(jax.value_and_grad(cubes(ours), (0, 1)))(*arrays)
    assert_close(found, in_float64(jax.value_and_grad(cubes(call.theirs), (0, 1)), *arrays))
    assert len(programs) == 1
    result = ours(*arrays)
    assert (result.dtype, result.shape) == (jnp.float32, call.theirs(*arrays).shape)
    assert len(programs) == 1


@pytest.mark.parametrize("call", UNPADDED, ids=str)
@pytest.mark.parametrize("by", [0, 1])
def test_only_what_is_wanted_is_computed_and_only_what_it_needs_is_sent(
    client: aclgrad.Client, programs: Programs, call: ConvolutionCall, by: int
) -> None:
    arrays = call.arrays()
    output = call.theirs(*arrays)
    found = jax.grad(cubes(call.ours(client)), by)(*arrays)
    assert_close(found, in_float64(jax.grad(cubes(call.theirs), by), *arrays))
    (program,) = programs
    assert f" steps: {size(4 * (output.size + arrays[1 - by].size))} to the server" in str(program)


@pytest.mark.parametrize("call", [*FEW, *(BY_ID[each] for each in ("volume", "transposed", "cropped"))], ids=str)
def test_second_derivatives(client: aclgrad.Client, programs: Programs, call: ConvolutionCall) -> None:
    arrays = call.arrays()
    found = jax.grad(penalty(call.ours(client), (0, 1)), (0, 1))(*arrays)
    assert_close(found, in_float64(jax.grad(penalty(call.theirs, (0, 1)), (0, 1)), *arrays), 1e-4)
    # The gradients, those of both of them, and those of what these are made of.
    assert len(programs) > 2


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None), (1, 0)])
@pytest.mark.parametrize(("call", "by"), [*((each, (0, 1)) for each in FEW), (FEW[1], (0,)), (FEW[1], (1,))], ids=str)
def test_vmap_makes_one_message_with_gradients_of_each_element(
    client: aclgrad.Client, programs: Programs, call: ConvolutionCall, axes: Any, by: Any
) -> None:
    arrays = [
        each if axis is None else np.stack([each, -each, each[::-1]], axis)
        for each, axis in zip(call.arrays(), axes, strict=True)
    ]
    found = jax.jit(jax.vmap(jax.grad(cubes(call.ours(client)), by), axes))(*arrays)
    assert_close(found, in_float64(jax.vmap(jax.grad(cubes(call.theirs), by), axes), *arrays))
    assert len(programs) == 1


def test_nested_vmaps_make_one_message(client: aclgrad.Client, programs: Programs) -> None:
    call = BY_ID["channels last"]
    lhs, rhs = call.arrays()
    arrays = np.stack([lhs, lhs + 1]), np.stack([rhs, -rhs, rhs + 1])

    def nested(function: Any) -> Any:
        return jax.vmap(jax.vmap(jax.grad(cubes(function), (0, 1)), (None, 0)), (0, None))

    found = jax.jit(nested(call.ours(client)))(*arrays)
    assert_close(found, in_float64(nested(call.theirs), *arrays))
    assert len(programs) == 1


def test_kernels_that_elements_have_in_common_are_sent_once(client: aclgrad.Client, programs: Programs) -> None:
    images, kernels = np.ones((50, 2, 3, 5, 5), np.float32), np.ones((40, 3, 3, 3), np.float32)

    def convolved(*arrays: Any) -> Any:
        return aclgrad.jax.conv(*arrays, (1, 1), "SAME", client=client)

    jax.block_until_ready(jax.vmap(jax.grad(cubes(convolved)), (0, None))(images, kernels))
    (program,) = programs
    assert f" steps: {size(4 * (kernels.size + 50 * 2 * 40 * 25))} to the server" in str(program)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("call", FEW, ids=str)
def test_halves_have_gradients_of_their_dtype(client: aclgrad.Client, call: ConvolutionCall, dtype: Any) -> None:
    arrays = [jnp.asarray(each, dtype) for each in call.arrays()]
    result, pull = jax.vjp(call.ours(client), *arrays)
    found = pull(jnp.ones_like(result))
    assert {each.dtype for each in (result, *found)} == {jnp.dtype(dtype)}
    exact = [np.asarray(each, np.float32) for each in arrays]
    right = in_float64(
        lambda *each: (call.theirs(*each), *jax.grad(lambda *a: call.theirs(*a).sum(), (0, 1))(*each)), *exact
    )
    assert_close((result, *found), right, float(jnp.finfo(dtype).eps))


def test_an_empty_batch_has_gradients_of_zeros_without_a_message(client: aclgrad.Client, programs: Programs) -> None:
    found = jax.grad(cubes(BY_ID["conv"].ours(client)), (0, 1))(IMAGES[:0], KERNELS[:, :, :, :2])
    np.testing.assert_array_equal(found[1], np.zeros((4, 3, 3, 2)))
    assert (found[0].shape, programs) == ((0, 3, 5, 5), [])


def test_shard_map_sums_the_gradients_of_kernels(client: aclgrad.Client, programs: Programs) -> None:
    mesh, call = Mesh(np.array(jax.devices()), ("card",)), BY_ID["conv"]
    images, kernels = np.random.default_rng(0).standard_normal((8, 3, 7, 6), np.float32), call.arrays()[1]

    def total(*arrays: Any) -> Any:
        return jax.lax.psum(cubes(call.ours(client))(*arrays), "card")

    sharded = jax.shard_map(total, mesh=mesh, in_specs=(Spec("card"), Spec()), out_specs=Spec())
    found = jax.block_until_ready(jax.jit(jax.grad(sharded, (0, 1)))(images, kernels))
    assert_close(found, in_float64(jax.grad(cubes(call.theirs), (0, 1)), images, kernels))
    assert len(programs) == 4


REFUSED: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
    ((IMAGES, [[1.0]], (1, 1), "SAME"), {}, "rhs is a list; give a jax.Array"),
    ((IMAGES, KERNELS.astype(np.float16), (1, 1), "SAME"), {}, "rhs is float16, and lhs float32; give both in one"),
    ((IMAGES.astype(int), KERNELS, (1, 1), "SAME"), {}, "lhs is int32; give float32"),
    ((IMAGES[0, 0], KERNELS[0, 0], (), "SAME"), {}, r"lhs.shape is \(5, 5\); give 3, 4 or 5 dimensions"),
    ((IMAGES, KERNELS[0], (1, 1), "SAME"), {}, r"rhs.shape is \(3, 3, 3\); give 4 dimensions"),
    ((IMAGES, KERNELS[:, :2], (1, 1), "SAME"), {}, r"rhs.shape is .*2 channels for each of 1 groups of a lhs of 3"),
    ((IMAGES[:, :0], KERNELS[:, :0], (1, 1), "SAME"), {}, r"lhs.shape is \(2, 0, 5, 5\), with no elements"),
    ((IMAGES[:, :, :0], KERNELS, (1, 1), [(2, 2), (1, 1)]), {}, r"lhs"),
    ((IMAGES, KERNELS, (1,), "SAME"), {}, r"window_strides is \(1,\); give"),
    ((IMAGES, KERNELS, (1, 0), "SAME"), {}, r"window_strides is \(1, 0\); give integers of at least 1"),
    ((IMAGES, KERNELS, (1, 2**31), "SAME"), {}, r"window_strides"),
    ((IMAGES, KERNELS, (1, 1), "FULL"), {}, "padding is 'FULL'; give SAME, VALID or 2 pairs"),
    ((IMAGES, KERNELS, (1, 1), [(1, 1)]), {}, r"padding is \[\(1, 1\)\]; give SAME, VALID or 2 pairs"),
    ((IMAGES, KERNELS, (1, 1), "SAME", (2, 1)), {}, r"padding is 'SAME' for a lhs_dilation of \(2, 1\)"),
    ((IMAGES, KERNELS, (1, 1), "VALID", None, (3, 1)), {}, r"rhs.shape is .*more than the padded lhs along axis 2"),
    ((IMAGES, KERNELS, (1, 1), "VALID", None, (0, 1)), {}, r"rhs_dilation is \(0, 1\); give integers"),
    ((IMAGES, KERNELS, (1, 1), "VALID"), {"dimension_numbers": ("NHWC", "HWIO")}, "dimension_numbers is .*give three"),
    ((IMAGES, KERNELS, (1, 1), "VALID"), {"dimension_numbers": ("NHWQ", "HWIO", "NHWC")}, "dimension_numbers is"),
    ((IMAGES, KERNELS, (1, 1), "VALID"), {"feature_group_count": 3}, "3 channels for each of 3 groups of a lhs of 3"),
    ((IMAGES, KERNELS[:, :1], (1, 1), "VALID"), {"feature_group_count": 3}, "feature_group_count is 3, of which the 4"),
    ((IMAGES, KERNELS, (1, 1), "VALID"), {"feature_group_count": 0}, "feature_group_count is 0; give an integer"),
    ((IMAGES, KERNELS, (1, 1), "VALID"), {"batch_group_count": 4}, "batch_group_count is 4, of which 4 kernels or 2"),
    (
        (IMAGES, KERNELS, (1, 1), "VALID"),
        {"feature_group_count": 3, "batch_group_count": 2},
        "batch_group_count is 2, and feature_group_count is 3",
    ),
    (
        (IMAGES, KERNELS, (1, 1), "VALID"),
        {"preferred_element_type": jnp.float64},
        "preferred_element_type is float64 for operands",
    ),
)


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED)
def test_arguments_are_refused_by_name(
    client: aclgrad.Client, arguments: tuple[Any, ...], options: Any, message: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=message):
        aclgrad.jax.conv_general_dilated(*arguments, **options, client=client)


def test_volumes_are_refused_where_the_product_has_none() -> None:
    call = BY_ID["volume"]
    with serve(product="310P") as server, aclgrad.Client(server.target) as client:
        with pytest.raises(aclgrad.InvalidFieldError, match=r"^(lhs|output)"):
            call.ours(client)(*call.arrays())
        assert BY_ID["row"].ours(client)(*BY_ID["row"].arrays()).dtype == jnp.float32
