"""Attention: JAX's output, gradients by one message against a formula in float64, transformations, and refusals."""

from collections.abc import Callable
from functools import partial
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
from tests.jax.attention import (
    ALL,
    BIAS,
    CALLS,
    KEY_LENGTHS,
    LENGTHS,
    MASKS,
    B,
    H,
    K,
    N,
    S,
    T,
    drawn,
    mask_of,
    operands,
    right,
)
from tests.jax.products import assert_close, cubes

Programs = list[aclgrad.Program]


def ours(client: aclgrad.Client, **options: Any) -> Callable[..., jax.Array]:
    return lambda *arrays: aclgrad.jax.dot_product_attention(*arrays, client=client, **options)


LIKE_JAX = {
    "mask-bias-causal": {"mask": MASKS[1], "bias": BIAS, "is_causal": True, "scale": 0.5},
    "lengths-window-causal": {
        "query_seq_lengths": LENGTHS,
        "key_value_seq_lengths": KEY_LENGTHS,
        "local_window_size": (2, 1),
        "is_causal": True,
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_come_in_one_message(client: aclgrad.Client, programs: Programs, name: str) -> None:
    """Queries without a key are among those of most masks."""
    arrays, grad, (options, expected) = operands(B), drawn(B, T, N, H), CALLS[name]
    output, pull = jax.vjp(ours(client, **options), *arrays)
    truth, *gradients, _ = right(grad, *arrays, **expected)
    assert_close(output, truth)
    assert programs == []
    assert_close(pull(grad), gradients)
    assert [len(each) for each in programs] == [2]


@pytest.mark.parametrize("name", LIKE_JAX)
def test_output_and_gradients_are_those_of_jax(client: aclgrad.Client, programs: Programs, name: str) -> None:
    arrays, options = operands(B), LIKE_JAX[name]

    def differentiate(function: Callable[..., Any]) -> Any:
        return jax.jit(jax.value_and_grad(cubes(function), ALL))(*arrays)

    found, expected = (
        differentiate(ours(client, **options)),
        differentiate(partial(jax.nn.dot_product_attention, **options)),
    )
    assert found[0] == expected[0]
    assert_close(found[1], expected[1])
    assert len(programs) == 1


@pytest.mark.parametrize("heads", [1, N])
def test_keys_may_have_one_head_or_as_many_as_queries(client: aclgrad.Client, heads: int) -> None:
    arrays, grad, (options, expected) = operands(B, heads=heads), drawn(B, T, N, H), CALLS["bias-mask"]
    _, pull = jax.vjp(ours(client, **options), *arrays)
    assert_close(pull(grad), right(grad, *arrays, **expected)[1:4])


def test_one_sequence_needs_no_axis(client: aclgrad.Client, programs: Programs) -> None:
    arrays, grad, mask = operands(), drawn(T, N, H), MASKS[2][0]
    output, pull = jax.vjp(ours(client, mask=mask), *arrays)
    expected = right(grad[None], *(each[None] for each in arrays), seen=mask)[:4]
    assert_close((output, *pull(grad)), [each[0] for each in expected])
    assert len(programs) == 1


def test_only_what_jax_differentiates_comes_back(client: aclgrad.Client, programs: Programs) -> None:
    arrays = operands(B)
    _, *expected, _ = right(np.ones((B, T, N, H)), *arrays)
    for place in ALL:
        found = jax.grad(lambda *each: ours(client)(*each).sum(), place)(*arrays)
        assert_close(found, expected[place])
        assert f"{size(arrays[place].nbytes)} back" in str(programs.pop())
    assert programs == []


@pytest.mark.parametrize("shape", [(1, N, T, S), (S,)])
def test_the_gradient_of_a_bias_is_that_of_jax(client: aclgrad.Client, programs: Programs, shape: Any) -> None:
    """It needs no message by itself."""
    arrays, grad = [*operands(B), drawn(*shape)], drawn(B, T, N, H)
    _, *expected, of_scores = right(grad, *arrays[:3], bias=arrays[3], seen=MASKS[1])
    added = 4 - len(shape)
    axes = tuple(axis for axis in range(4) if axis < added or shape[axis - added] == 1)
    expected.append(of_scores.sum(axes).reshape(shape))
    masked = ours(client, mask=MASKS[1])
    assert_close(jax.vjp(masked, *arrays)[1](grad), expected)
    assert len(programs) == 1
    assert_close(jax.vjp(lambda bias: masked(*arrays[:3], bias), arrays[3])[1](grad)[0], expected[3])
    assert len(programs) == 1


def test_a_bias_of_minus_infinity_is_a_mask(client: aclgrad.Client) -> None:
    arrays, grad, seen = operands(B), drawn(B, T, N, H), MASKS[0].copy()
    seen[..., 0] = True
    _, pull = jax.vjp(ours(client, bias=np.where(seen, BIAS, -np.inf)), *arrays)
    assert_close(pull(grad), right(grad, *arrays, bias=BIAS, seen=seen)[1:4])


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_queries_of_the_lowest_biases_alone_see_all_keys(client: aclgrad.Client, dtype: Any) -> None:
    """Many models write masks so."""
    arrays, grad = ([jnp.asarray(each, dtype) for each in some] for some in (operands(B), [drawn(B, T, N, H)]))
    bias = jnp.where(MASKS[0], 0, jnp.finfo(dtype).min).astype(dtype)
    _, pull = jax.vjp(ours(client, bias=bias), *arrays)
    truth = right(*(np.asarray(each, np.float32) for each in (*grad, *arrays)), bias=np.asarray(bias, np.float64))
    assert_close(pull(grad[0]), truth[1:4], max(1e-5, 4 * float(jnp.finfo(dtype).eps)))


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize(
    "hiding",
    [
        {"is_causal": True},
        {"mask": np.tri(T, S, dtype=np.bool_)},
        {"mask": (np.arange(S) < np.array([2, S])[:, None])[:, None, None]},
    ],
    ids=["causal", "positions", "keys"],
)
@pytest.mark.parametrize("low", ["lowest", "infinite"])
def test_queries_of_padding_alone_see_what_a_mask_hides(
    client: aclgrad.Client, dtype: Any, hiding: dict[str, Any], low: str
) -> None:
    """JAX's score of hidden keys is higher than such a bias."""
    arrays, grad = ([jnp.asarray(each, dtype) for each in some] for some in (operands(B), [drawn(B, T, N, H)]))
    bias = jnp.where(np.arange(S) < 2, jnp.finfo(dtype).min if low == "lowest" else -jnp.inf, 0).astype(dtype)
    options = {"bias": bias, **hiding}
    wide = [each.astype(jnp.float32) for each in (*arrays, grad[0], bias)]
    theirs = partial(jax.nn.dot_product_attention, **options | {"bias": wide[4]})
    _, pull = jax.vjp(ours(client, **options), *arrays)
    _, expected = jax.vjp(theirs, *wide[:3])
    assert_close(pull(grad[0]), expected(wide[3]), max(1e-5, 4 * float(jnp.finfo(dtype).eps)))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
@pytest.mark.parametrize("name", ["causal", "bias-mask"])
def test_halves_have_gradients_of_their_own_dtype(client: aclgrad.Client, dtype: Any, name: str) -> None:
    arrays, grad = [jnp.asarray(each, dtype) for each in operands(B)], jnp.asarray(drawn(B, T, N, H), dtype)
    options, expected = dict(CALLS[name][0]), dict(CALLS[name][1])
    if "bias" in options:
        options["bias"] = jnp.asarray(options["bias"], dtype)
        expected["bias"] = np.asarray(options["bias"], np.float32)
    output, pull = jax.vjp(ours(client, **options), *arrays)
    found = output, *pull(grad)
    assert {each.dtype for each in found} == {jnp.dtype(dtype)}
    exact = [np.asarray(each, np.float32) for each in (grad, *arrays)]
    assert_close(found, right(*exact, **expected)[:4], 4 * float(jnp.finfo(dtype).eps))


@pytest.mark.parametrize("axes", [(0, 0, 0, 0), (None, 0, 0, None), (0, None, 1, 0)])
def test_vmap_makes_one_message(client: aclgrad.Client, programs: Programs, axes: Any) -> None:
    """What it maps are further sequences; a mask is that of all elements, or of each."""
    masks = np.stack([MASKS[1], MASKS[1][::-1], ~MASKS[1]])
    many, grad = [*(np.stack([each, -each, 2 * each]) for each in operands(B)), masks], drawn(B, T, N, H)
    given = [each[0] if axis is None else np.moveaxis(each, 0, axis) for each, axis in zip(many, axes, strict=True)]

    def pulled(query: Any, key: Any, value: Any, mask: Any) -> Any:
        return jax.vjp(ours(client, mask=mask), query, key, value)[1](grad)

    found = jax.jit(jax.vmap(pulled, axes))(*given)
    for place in range(3):
        *arrays, mask = (each[0 if axis is None else place] for each, axis in zip(many, axes, strict=True))
        assert_close([each[place] for each in found], right(grad, *arrays, seen=mask)[1:4])
    assert len(programs) == 1


def test_nested_vmaps_of_one_sequence(client: aclgrad.Client, programs: Programs) -> None:
    """The gradient of what is not mapped is a sum."""
    query, key, value = operands(2, 3)
    arrays, grad = (query, key[0], value[:, 0]), drawn(2, 3, T, N, H)
    nested = jax.vmap(jax.vmap(ours(client, is_causal=True, bias=BIAS[0]), (0, 0, None)), (0, None, 0))
    found = jax.vjp(jax.jit(nested), *arrays)[1](grad)
    whole = [
        np.broadcast_to(each, (2, 3, *each.shape[-3:])).reshape(6, *each.shape[-3:])
        for each in (grad, query, key[0], value[:, :1])
    ]
    of_query, of_key, of_value = right(*whole, bias=BIAS[0], seen=np.tri(T, S) > 0)[1:4]
    of_query, of_key, of_value = (each.reshape(2, 3, *each.shape[1:]) for each in (of_query, of_key, of_value))
    assert_close(found, [of_query, of_key.sum(0), of_value.sum(1)])
    assert len(programs) == 1


def test_checkpoints_and_scans(client: aclgrad.Client, programs: Programs) -> None:
    """A checkpoint computes the forward pass again, and a scan makes a message for each of its steps."""
    query, key, value = operands(B, keys=T, heads=N)
    attend = ours(client, is_causal=True)

    def total(key: Any) -> Any:
        step = jax.checkpoint(lambda x, _: (attend(x, key, value), None))
        return (jax.lax.scan(step, query, None, 3)[0]).sum()

    steps, grad, expected, seen = [query], np.ones((B, T, N, H)), np.zeros(key.shape), np.tri(T) > 0
    for _ in range(3):
        steps.append(right(grad, steps[-1], key, value, seen=seen)[0])
    for each in steps[2::-1]:
        _, grad, of_key, _, _ = right(grad, each, key, value, seen=seen)
        expected += of_key
    assert_close(jax.jit(jax.grad(total))(key), expected)
    assert len(programs) == 3


def test_shard_map_makes_one_message_for_each_device(client: aclgrad.Client, programs: Programs) -> None:
    """The gradient of a value that all have is a sum."""
    mesh = Mesh(np.array(jax.devices()), ("card",))
    query, key, value = operands(4)
    mask = mask_of(4, 1, T, S)

    def total(value: Any, *arrays: Any) -> Any:
        query, key, mask = arrays
        return jax.lax.psum(ours(client, mask=mask)(query, key, value).sum(), "card")

    specs = Spec(), *[Spec("card")] * 3
    sharded = jax.shard_map(total, mesh=mesh, in_specs=specs, out_specs=Spec())
    found = jax.jit(jax.grad(sharded))(value[:1], query, key, mask)
    whole = right(np.ones(query.shape), query, key, np.broadcast_to(value[:1], value.shape), seen=mask)
    assert_close(found, whole[3].sum(0, keepdims=True))
    assert len(programs) == 4


@pytest.mark.parametrize("empty", [(0, T, N, S), (B, 0, N, S), (B, T, 0, S), (B, T, N, 0)])
def test_what_is_empty_has_gradients_of_zeros_without_a_message(
    client: aclgrad.Client, programs: Programs, empty: Any
) -> None:
    batch, queries, heads, keys = empty
    shapes = (batch, queries, heads, H), *[(batch, keys, K, H)] * 2
    arrays = [np.ones(each, np.float32) for each in shapes]
    for options in ({"is_causal": True}, {"mask": np.ones((1, 1, 1, 1), np.bool_)}):
        output, pull = jax.vjp(ours(client, **options), *arrays)
        for found, each in zip(pull(output), arrays, strict=True):
            np.testing.assert_array_equal(found, np.zeros_like(each))
    assert programs == []


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 9), (9, 1)])
def test_single_queries_and_keys(client: aclgrad.Client, queries: int, keys: int) -> None:
    grad, *arrays = drawn(1, queries, 1, 1), drawn(1, queries, 1, 1), drawn(1, keys, 1, 1), drawn(1, keys, 1, 1)
    found = jax.vjp(ours(client, is_causal=True, scale=-2), *arrays)[1](grad)
    expected = right(grad, *arrays, seen=np.tri(queries, keys) > 0, scale=-2)[1:4]
    for mine, each in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, each, rtol=1e-4, atol=1e-5)


def test_a_second_derivative_is_refused(client: aclgrad.Client) -> None:
    first = jax.grad(cubes(ours(client)))
    with pytest.raises(aclgrad.InvalidFieldError, match="dot_product_attention has no second derivative"):
        jax.grad(lambda *arrays: first(*arrays).sum())(*operands(B))


QUERY, KEY, VALUE = operands(B)
REFUSED: tuple[tuple[tuple[Any, ...], dict[str, Any], str], ...] = (
    ((QUERY, KEY.tolist(), VALUE), {}, "key is a list; give a jax.Array"),
    ((QUERY, KEY, VALUE.astype(int)), {}, "value is int32; give float32 or float16 or bfloat16"),
    ((QUERY, KEY, VALUE.astype(np.float16)), {}, "value is float16, and query is float32; give all in one dtype"),
    ((QUERY[0, 0], KEY, VALUE), {}, r"query.shape is \(4, 8\); give 3 or 4 dimensions"),
    ((QUERY, KEY[0], VALUE), {}, r"key.shape is \(7, 2, 8\); give the 4 dimensions of query"),
    ((QUERY, KEY[:1], VALUE), {}, r"key.shape is \(1, 7, 2, 8\) for a query of \(2, 5, 4, 8\); give equal batches"),
    ((QUERY, KEY[..., 1:], VALUE), {}, r"key.shape is .*heads of equal sizes"),
    ((QUERY[..., :0], KEY[..., :0], VALUE[..., :0]), {}, r"key.shape is .*of at least 1"),
    ((QUERY[:, :, 1:], KEY, VALUE), {}, r"key.shape is .*2 heads, which do not divide the 3 of query"),
    ((QUERY, KEY[:, :, :0], VALUE), {}, r"key.shape is .*0 heads, which do not divide the 4 of query"),
    ((QUERY, KEY, VALUE[..., 1:]), {}, r"value.shape is \(2, 7, 2, 7\); give \(2, 7, 2, 8\)"),
    ((QUERY, KEY, VALUE, BIAS[..., 1:]), {}, r"bias.shape is \(2, 4, 5, 6\); give a shape that broadcasts to \(2, 4"),
    ((QUERY, KEY, VALUE, BIAS[None]), {}, r"bias.shape is \(1, 2, 4, 5, 7\); give a shape"),
    ((QUERY, KEY, VALUE, MASKS[0]), {}, "bias is bool, and query is float32; cast it"),
    ((*(each.astype(np.float16) for each in (QUERY, KEY, VALUE)), BIAS), {}, "bias is float32, and query is float16"),
    ((QUERY, KEY, VALUE, None, BIAS), {}, "mask is float32; give bool, and numbers as bias"),
    ((QUERY, KEY, VALUE, None, MASKS[0][:, :2]), {}, r"mask.shape is \(2, 2, 5, 7\); give a shape"),
    ((QUERY, KEY, VALUE, None, [True]), {}, "mask is a list; give a jax.Array"),
    ((QUERY, KEY, VALUE), {"scale": np.nan}, "scale is nan; give a finite number"),
    ((QUERY, KEY, VALUE), {"scale": "1"}, "scale is '1'; give a finite number"),
    ((QUERY, KEY, VALUE), {"scale": 1e39}, "scale is 1e[+]39"),
    ((QUERY, KEY, VALUE), {"query_seq_lengths": LENGTHS[:1]}, r"query_seq_lengths is int32 of shape \(1,\); give int"),
    ((QUERY, KEY, VALUE), {"key_value_seq_lengths": [1, 2]}, "key_value_seq_lengths is a list; give a jax.Array"),
    ((QUERY, KEY, VALUE), {"local_window_size": "1"}, "local_window_size is '1'; give an integer, or two"),
    ((QUERY, KEY, VALUE), {"local_window_size": (1, 2, 3)}, r"local_window_size is \(1, 2, 3\); give an integer"),
    (tuple(np.ones((1, 2, 1, 769), np.float32) for _ in range(3)), {}, r"query.shape is .*with 769 elements in a head"),
)


@pytest.mark.parametrize(("arguments", "options", "message"), REFUSED)
def test_arguments_are_refused_by_name(
    client: aclgrad.Client, arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=message):
        aclgrad.jax.dot_product_attention(*arguments, client=client, **options)


def test_a_product_without_the_operators_refuses_by_name() -> None:
    with (
        serve(product="310P") as server,
        aclgrad.Client(server.target) as client,
        pytest.raises(aclgrad.OperatorNotSupportedError, match="flash_attention_score is not served"),
    ):
        aclgrad.jax.dot_product_attention(QUERY, KEY, VALUE, client=client)
