"""Products and their gradients of several orders against JAX in float64, transformations, and what is refused."""

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
from tests.jax.products import FIRST, PRODUCTS, ProductCall, assert_close, cubes, in_float64, penalty

Programs = list[aclgrad.Program]
SQUARE, ROW = np.ones((3, 3), np.float32), np.ones(3, np.float32)


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize("call", PRODUCTS, ids=str)
def test_gradients_of_all_operands_come_in_one_message(
    client: aclgrad.Client, programs: Programs, call: ProductCall, is_compiled: bool
) -> None:
    arrays = call.arrays()
    ours = call.ours(client)
    differentiate = jax.value_and_grad(cubes(ours), call.by)
    found = (jax.jit(differentiate) if is_compiled else differentiate)(*arrays)
    assert_close(found, in_float64(jax.value_and_grad(cubes(call.theirs), call.by), *arrays))
    assert len(programs) == 1
    product = ours(*arrays)
    assert (product.dtype, product.shape) == (jnp.float32, call.theirs(*arrays).shape)
    assert len(programs) == 1


@pytest.mark.parametrize("call", PRODUCTS, ids=str)
def test_only_what_jax_differentiates_is_computed(
    client: aclgrad.Client, programs: Programs, call: ProductCall
) -> None:
    arrays = call.arrays()
    jax.block_until_ready(jax.grad(cubes(call.ours(client)), call.by)(*arrays))
    for place in call.by:
        found = jax.grad(cubes(call.ours(client)), place)(*arrays)
        assert_close(found, in_float64(jax.grad(cubes(call.theirs), place), *arrays))
        assert len(programs.pop()) < len(programs[0])


@pytest.mark.parametrize("call", PRODUCTS, ids=str)
def test_second_and_third_derivatives(client: aclgrad.Client, programs: Programs, call: ProductCall) -> None:
    arrays, by = call.arrays(), call.by
    found = jax.jit(jax.grad(penalty(call.ours(client), by), by))(*arrays)
    assert len(programs) > 1
    assert_close(found, in_float64(jax.grad(penalty(call.theirs, by), by), *arrays), 1e-4)

    def third(function: Any) -> Any:
        slope = jax.grad(penalty(function, (0,)), 1)
        return jax.grad(lambda *each: (slope(*each) ** 2).sum(), by)

    assert_close(third(call.ours(client))(*arrays), in_float64(third(call.theirs), *arrays), 1e-3)


def test_a_penalty_of_the_gradient_of_one_operand_takes_a_message_for_each_product(
    client: aclgrad.Client, programs: Programs
) -> None:
    """The gradient, the derivative of it by both operands, and that of the product of the first one."""
    call = FIRST["matmul"]
    arrays = call.arrays()

    def norm(function: Any) -> Any:
        gradient = jax.grad(lambda *each: function(*each).sum())
        return lambda *each: (gradient(*each) ** 2).sum()

    found = jax.grad(norm(call.ours(client)), 1)(*arrays)
    assert_close(found, in_float64(jax.grad(norm(call.theirs), 1), *arrays))
    assert len(programs) == 2


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None), (1, 0)])
@pytest.mark.parametrize("call", [FIRST[name] for name in sorted(FIRST)], ids=str)
def test_vmap_makes_one_message_with_gradients_of_each_element(
    client: aclgrad.Client, programs: Programs, call: ProductCall, axes: Any
) -> None:
    arrays = [
        each if axis is None else np.moveaxis(many, 0, axis)
        for each, many, axis in zip(call.arrays(), call.arrays(6), axes, strict=True)
    ]
    found = jax.jit(jax.vmap(jax.grad(cubes(call.ours(client)), call.by), axes))(*arrays)
    assert_close(found, in_float64(jax.vmap(jax.grad(cubes(call.theirs), call.by), axes), *arrays))
    assert len(programs) == 1


@pytest.mark.parametrize(
    "axes", [((0, None), (None, 0)), ((0, 0), (0, 0)), ((None, 0), (None, 0)), ((0, 0), (0, None))]
)
def test_nested_vmaps_make_one_message(client: aclgrad.Client, programs: Programs, axes: Any) -> None:
    call = FIRST["matmul"]
    one, other = call.arrays(3, 2)
    inner, outer = axes
    given = [one, other]
    for place in range(2):
        for level in (inner, outer):
            given[place] = given[place] if level[place] == 0 else given[place][0]

    def nested(function: Any) -> Any:
        return jax.vmap(jax.vmap(jax.grad(cubes(function), call.by), inner), outer)

    found = jax.jit(nested(call.ours(client)))(*given)
    assert_close(found, in_float64(nested(call.theirs), *given))
    assert len(programs) == 1


def test_an_operand_that_is_not_mapped_is_sent_once(client: aclgrad.Client, programs: Programs) -> None:
    """Also if its gradients are wanted for each element."""
    features, weight = (np.ones(each, np.float32) for each in ((50, 2, 8), (8, 100)))
    jax.block_until_ready(
        jax.vmap(jax.grad(cubes(lambda *each: aclgrad.jax.matmul(*each, client=client)), (0, 1)), (0, None))(
            features, weight
        )
    )
    (program,) = programs
    sent = 4 * (features.size + weight.size + 50 * 2 * 100)
    assert f" steps: {size(sent)} to the server" in str(program)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("call", [FIRST[name] for name in sorted(FIRST)], ids=str)
def test_halves_have_gradients_of_their_dtype(client: aclgrad.Client, call: ProductCall, dtype: Any) -> None:
    arrays = [jnp.asarray(each, dtype) for each in call.arrays()]
    product, pull = jax.vjp(call.ours(client), *arrays)
    found = pull(jnp.ones_like(product))
    assert {each.dtype for each in (product, *found)} == {jnp.dtype(dtype)}
    exact = [np.asarray(each, np.float32) for each in arrays]
    right = in_float64(
        lambda *each: (call.theirs(*each), *jax.grad(lambda *a: call.theirs(*a).sum(), call.by)(*each)), *exact
    )
    assert_close((product, *found), right, float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("matmul", ((0, 4), (4, 5))),
        ("matmul", ((3, 0), (0, 5))),
        ("matmul", ((2, 0, 3, 4), (4, 5))),
        ("dot", ((0,), (0,))),
    ],
)
def test_what_is_empty_has_gradients_of_zeros_without_a_message(
    client: aclgrad.Client, programs: Programs, name: str, shapes: Any
) -> None:
    call = ProductCall(name, shapes)
    arrays = call.arrays()
    found = jax.grad(cubes(call.ours(client)), call.by)(*arrays)
    for mine, array in zip(found, arrays, strict=True):
        np.testing.assert_array_equal(mine, np.zeros_like(array))
    assert programs == []


def test_shard_map_sums_the_gradients_of_weights(client: aclgrad.Client, programs: Programs) -> None:
    mesh, call = Mesh(np.array(jax.devices()), ("card",)), ProductCall("matmul", ((8, 3), (3, 5)))
    arrays = call.arrays()

    def total(*arrays: Any) -> Any:
        return jax.lax.psum(cubes(call.ours(client))(*arrays), "card")

    sharded = jax.shard_map(total, mesh=mesh, in_specs=(Spec("card"), Spec()), out_specs=Spec())
    found = jax.jit(jax.grad(sharded, (0, 1)))(*arrays)
    assert_close(found, in_float64(jax.grad(cubes(call.theirs), (0, 1)), *arrays))
    assert len(programs) == 4


def test_an_operand_twice_has_both_gradients(client: aclgrad.Client, programs: Programs) -> None:
    x = ProductCall("matmul", ((4, 4),)).arrays()[0]
    found = jax.grad(cubes(lambda each: aclgrad.jax.matmul(each, each.T, client=client)))(x)
    assert_close(found, in_float64(jax.grad(cubes(lambda each: each @ each.T)), x))
    assert len(programs) == 1


REFUSED: tuple[tuple[str, tuple[Any, ...], dict[str, Any], str], ...] = (
    ("matmul", (SQUARE, np.float32(2)), {}, "b is a float32; give a jax.Array"),
    ("matmul", (SQUARE, jnp.float32(2)), {}, r"b.shape is \(\); give at least 1 dimension"),
    ("matmul", (SQUARE, np.ones((4, 3), np.float32)), {}, r"b.shape is \(4, 3\) for a product with \(3, 3\); give 3"),
    ("matmul", (SQUARE, [[1.0]]), {}, "b is a list; give a jax.Array"),
    ("matmul", (SQUARE, SQUARE.astype(int)), {}, "b is int32; give .*float32"),
    ("matmul", (SQUARE, SQUARE.astype(np.complex64)), {}, "b is complex64; give .*float32"),
    ("matmul", (SQUARE, SQUARE.astype(np.float16)), {}, "b is float16, and another operand float32; give all in one"),
    (
        "dot",
        (SQUARE, SQUARE),
        {"preferred_element_type": jnp.float64},
        "preferred_element_type is float64 for operands",
    ),
    ("dot", (SQUARE, np.ones((1, 3), np.float32)), {}, r"b.shape is \(1, 3\) for a product with \(3, 3\)"),
    ("tensordot", (SQUARE, SQUARE, "2"), {}, "axes is '2'; give a number"),
    ("tensordot", (SQUARE, SQUARE, 3), {}, "dimension_numbers is .* for operands of"),
    ("tensordot", (SQUARE, SQUARE, ((0, 0), (0, 1))), {}, "dimension_numbers is .*give each axis once"),
    ("dot_general", (SQUARE, ROW, (((1,), (0, 0)), ((), ()))), {}, "dimension_numbers is .*as many of both"),
    ("dot_general", (SQUARE, ROW, None), {}, "dimension_numbers is None for operands"),
    ("einsum", ("ii", SQUARE), {}, "equation is 'ii' for 1 operands; .* or call jax.numpy.einsum"),
    ("einsum", (SQUARE, SQUARE), {}, "equation is a ndarray; give a text"),
    (
        "einsum",
        ("ij,jk->iz", SQUARE, SQUARE),
        {},
        "equation .*letters are not each once",
    ),
    ("einsum", ("ij,j", SQUARE, SQUARE), {}, r"equation .*'j' for operand 1, of shape \(3, 3\)"),
    ("einsum", ("ij,jk", SQUARE, SQUARE[:2]), {}, "equation .*'j' for sizes of 3 and 2"),
)


@pytest.mark.parametrize(("name", "arguments", "options", "message"), REFUSED)
def test_arguments_are_refused_by_name(
    client: aclgrad.Client, name: str, arguments: tuple[Any, ...], options: Any, message: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=message):
        getattr(aclgrad.jax, name)(*arguments, **options, client=client)


def test_float64_is_refused(client: aclgrad.Client) -> None:
    with jax.enable_x64(True), pytest.raises(aclgrad.InvalidFieldError, match="a is float64; give"):
        aclgrad.jax.matmul(jnp.ones((2, 2)), jnp.ones((2, 2)), client=client)


def test_a_product_without_the_dtype_refuses_it_by_name() -> None:
    halves = jnp.ones((2, 2), jnp.bfloat16)
    with serve(product="310P") as server, aclgrad.Client(server.target) as client:
        with pytest.raises(aclgrad.InvalidFieldError, match=r"^a.data_type is bfloat16"):
            aclgrad.jax.matmul(halves, halves, client=client)
        assert aclgrad.jax.matmul(SQUARE, SQUARE, client=client).dtype == jnp.float32
