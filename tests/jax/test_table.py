"""Every row of the table: output and gradients against PyTorch's, plain, compiled, and under vmap."""

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
from aclgrad.bridges.rows import ROWS as BRIDGED
from tests.jax.convolutions import CONVOLUTIONS
from tests.jax.formulas import FIRST_FORMULA, FORMULAS
from tests.jax.products import PRODUCTS
from tests.jax.rows import FIRST, ROWS, Calls, arrays_of, loss, ours, theirs
from tests.torch.table import CALLS_OF_VMAP, Call

GENERATOR = np.random.default_rng(8)
ONE_OF_EACH = tuple(each for each in FIRST.values() if each.outputs)
ELEMENTWISE = {"gelu", "hardswish", "leaky_relu", "relu", "sigmoid", "tanh", "threshold"}
"""Those that differ from silu in nothing but their formula."""
OF_ONE = tuple(
    {each.operator: each for each in reversed(ROWS) if not each.outputs and each.function not in ELEMENTWISE}.values()
)
COMPILED = ("max_pool2d", "avg_pool2d", "silu", "embedding", "layer_norm", "grid_sample")


@pytest.mark.parametrize(
    ("call", "is_compiled"),
    [
        *(pytest.param(each, False, id=str(each)) for each in ROWS),
        *(pytest.param(FIRST[each], True, id=f"{each}-jit") for each in COMPILED),
    ],
)
def test_output_and_gradients_are_those_of_pytorch_in_one_call(
    client: aclgrad.Client, calls: Calls, call: Call, is_compiled: bool
) -> None:
    leaves = call.leaves()
    output = theirs(call)(*leaves)
    grad_output = torch.linspace(-1, 2, output.numel()).reshape(output.shape)
    output.backward(grad_output)
    function = jax.jit(ours(call, client)) if is_compiled else ours(call, client)
    mine, pull = jax.vjp(function, *arrays_of(call.values))
    gradients = jax.block_until_ready(pull(grad_output.numpy()))
    assert len(calls) == (1 if output.numel() else 0)
    expected = arrays_of([output, *(each.grad for each in leaves if each is not None)])
    for found, right in zip([mine, *gradients], expected, strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4 if call.outputs else 1e-5)


LOCAL = {"binary_cross_entropy_backward", "l1_loss_backward", "nll_loss2d_backward"}
"""Operators of functions that neither JAX nor Optax has."""
OWN = {
    *("ctc_loss_backward", "dropout_do_mask", "nll_loss_backward", "prelu_backward"),
    "upsample_bilinear2d_backward_v2",
}
"""Those of functions that have tests of their own."""


def test_every_function_and_every_row_has_a_call() -> None:
    others = {each.name for each in (*PRODUCTS, *CONVOLUTIONS)}
    special = {"dot_product_attention", "dropout", "prelu", "softmax_cross_entropy_with_integer_labels"}
    assert FIRST.keys() | FIRST_FORMULA.keys() | others | special == set(aclgrad.jax.__all__)
    called = {each.operator for each in (*ROWS, *FORMULAS)}
    rows = {each.operator for each in BRIDGED.values()} - LOCAL - OWN - {"convolution_backward"}
    assert rows - called == set()


HALVES = [
    pytest.param(call, dtype, is_wide, id=f"{call}-{dtype}{'-wide' * is_wide}")
    for call in FIRST.values()
    for dtype, is_wide in (
        (torch.float16 if "unpool" in call.function else torch.bfloat16, False),
        *(((torch.float16, True),) if call.function in ("layer_norm", "batch_norm") else ()),
    )
    if call.function != "roi_align"
]
"""Each function in a half, and normalisations with parameters of float32."""


@pytest.mark.parametrize(("call", "dtype", "is_wide"), HALVES)
def test_gradients_have_the_types_of_their_arguments(
    client: aclgrad.Client, call: Call, dtype: torch.dtype, is_wide: bool
) -> None:
    own = str(dtype).removeprefix("torch.")
    arrays = [jnp.asarray(each) for each in arrays_of(call.values)]
    given = [each.astype(jnp.float32 if is_wide and place else own) for place, each in enumerate(arrays)]
    by = tuple(range(len(given)))
    found = jax.jit(jax.grad(loss(ours(call, client)), by))(*given)
    assert [each.dtype for each in found] == [each.dtype for each in given]
    exact = [torch.from_numpy(np.array(each, np.float32)) for each in given]
    for mine, right in zip(found, torch.func.grad(loss(theirs(call)), by)(*exact), strict=True):
        np.testing.assert_allclose(np.asarray(mine, np.float32), right, rtol=0.06, atol=0.3)


@pytest.mark.parametrize("call", ONE_OF_EACH, ids=str)
def test_only_what_jax_differentiates_is_wanted(client: aclgrad.Client, calls: Calls, call: Call) -> None:
    arrays = arrays_of(call.values)
    for by, name in enumerate(call.outputs):
        found = jax.jit(jax.grad(loss(ours(call, client)), by))(*arrays)
        np.testing.assert_allclose(found, torch.func.grad(loss(theirs(call)), by)(*call.values), rtol=1e-3, atol=1e-3)
        assert calls.pop() == (call.operator, [name])
    assert ours(call, client)(*arrays).shape == call.bound()(*call.values).shape
    assert calls == []


@pytest.mark.parametrize("name", ["layer_norm", "silu"])
def test_a_second_derivative_is_refused(client: aclgrad.Client, name: str) -> None:
    first = jax.grad(loss(ours(FIRST[name], client)))
    with pytest.raises(aclgrad.InvalidFieldError, match=f"{name} has no second derivative"):
        jax.grad(lambda *arrays: first(*arrays).sum())(*arrays_of(FIRST[name].values))


@pytest.mark.parametrize("call", OF_ONE, ids=str)
def test_vmap_makes_one_call(client: aclgrad.Client, calls: Calls, call: Call) -> None:
    """Nested ones, too, but of embeddings, whose gradients are sums over a call."""
    many = np.stack([call.input.numpy(), 2 * call.input.numpy()])
    found = jax.jit(jax.vmap(jax.vmap(jax.grad(loss(ours(call, client))))))(many[:, None])[:, 0]
    expected = torch.stack([torch.func.grad(loss(theirs(call)))(each) for each in torch.from_numpy(many)])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    assert len(calls) == (2 if call.function == "embedding" else 1)


@pytest.mark.parametrize(("function", "by", "axes"), [each for each in CALLS_OF_VMAP if each[0] in FIRST], ids=str)
def test_vmap_by_several_arguments(
    client: aclgrad.Client, calls: Calls, function: str, by: tuple[int, ...], axes: Any
) -> None:
    call = FIRST[function]
    mapped = [
        each if axis is None else np.stack([each, each[::-1], each * np.float32(0.9)], axis)
        for each, axis in zip(arrays_of(call.values), axes, strict=True)
    ]
    found = jax.jit(jax.vmap(jax.grad(loss(ours(call, client)), by), axes))(*mapped)
    assert len(calls) == CALLS_OF_VMAP[function, by, axes]
    expected = torch.vmap(torch.func.grad(loss(theirs(call)), by), axes)(*map(torch.from_numpy, mapped))
    for mine, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("name", "count"), [("layer_norm", 4), ("batch_norm", 2), ("group_norm", 9)])
def test_nested_vmaps_and_the_gradient_of_a_vmap(client: aclgrad.Client, calls: Calls, name: str, count: int) -> None:
    call = FIRST[name]
    first, *rest = arrays_of(call.values)
    many = GENERATOR.standard_normal((2, 3, *first.shape), np.float32)

    def found(function: Any, library: Any, grad: Any, arrays: list[Any]) -> Any:
        many, *rest = arrays
        axes = (0, *[None] * len(rest))
        nested = library.vmap(library.vmap(grad(loss(function)), axes), axes)
        total = grad(lambda *each: loss(library.vmap(lambda x: function(x, *each[1:])))(each[0]), (0, 1))
        return nested(many, *rest), *total(many[0], *rest)

    mine = jax.jit(partial(found, ours(call, client), jax, jax.grad))([many, *rest])
    assert len(calls) == count
    expected = found(theirs(call), torch, torch.func.grad, list(map(torch.from_numpy, (many, *rest))))
    for each, right in zip(mine, expected, strict=True):
        np.testing.assert_allclose(each, right, rtol=2e-3, atol=2e-3)


def test_shard_map_sums_the_gradients_of_parameters(client: aclgrad.Client) -> None:
    """Each device normalises a part of the batch, with the same parameters."""
    mesh, call = Mesh(np.array(jax.devices()), ("card",)), FIRST["batch_norm"]
    arrays = GENERATOR.standard_normal((8, *call.input.shape[1:]), np.float32), *arrays_of(call.values[1:])

    def total(*arrays: Any) -> Any:
        return jax.lax.psum(loss(ours(call, client))(*arrays), "card")

    sharded = jax.shard_map(total, mesh=mesh, in_specs=(Spec("card"), Spec(), Spec()), out_specs=Spec())
    found = jax.jit(jax.grad(sharded, (0, 1, 2)))(*arrays)
    leaves = [torch.from_numpy(each).requires_grad_() for each in arrays]
    sum(loss(theirs(call))(part, *leaves[1:]) for part in leaves[0].chunk(4)).backward()
    for mine, leaf in zip(found, leaves, strict=True):
        np.testing.assert_allclose(mine, leaf.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["silu", "softmax", "log_softmax"])
def test_vmap_of_scalars(client: aclgrad.Client, calls: Calls, name: str) -> None:
    """The axis of vmap is not theirs: softmax of one number is 1, and its gradient 0."""
    rest = () if name == "silu" else (0,)
    values = np.linspace(-2.1, 2.9, 6, dtype=np.float32)
    gradient = jax.grad(lambda x: getattr(aclgrad.jax, name)(x, *rest, client=client))
    expected = [torch.func.grad(lambda x: getattr(functional, name)(x, *rest))(torch.tensor(each)) for each in values]
    for found in (jax.vmap(gradient)(values), jax.vmap(jax.vmap(gradient))(values.reshape(2, 3)).ravel()):
        np.testing.assert_allclose(found, torch.stack(expected), rtol=1e-5, atol=1e-6)
    assert len(calls) == 2
    assert gradient(0.7).shape == ()
