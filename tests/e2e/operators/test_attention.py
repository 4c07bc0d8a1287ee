"""Attention through a server: statistics and masks that it makes for devices, programs, and rows without keys."""

from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from aclgrad.composites import DEFINITIONS, scaled_dot_product_attention_backward
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.attention.samples import attention_case
from tools.serving import Server

Array = np.ndarray[Any, Any]
GRADIENT = "flash_attention_score_grad"
SMALLEST = 2 * np.finfo(np.float32).tiny
COMPOSITE = DEFINITIONS["scaled_dot_product_attention_backward"]


def drawn(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(np.float32)


def typed_call(**given: Any) -> TypedCase:
    case = attention_case("masked_row", "BNSD", 2, 4, 70, 90, 16, shared=2, operator=GRADIENT, **given)
    return TypedCase(OPERATORS[GRADIENT], case, "float32")


def assert_near(found: Any, truth: Any) -> None:
    for one, other in zip(found, truth, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-5)


def test_a_value_of_each_row_gives_what_eight_lanes_give(shared_server: Server) -> None:
    typed = typed_call(mask="ST")
    arrays = typed.arrays()
    with aclgrad.Client(shared_server.address) as client:
        eight = client.execute(GRADIENT, arrays)
        one_each = {name: arrays[name][..., 0] for name in ("softmax_max", "softmax_sum")}
        for given in (one_each, {"softmax_max": one_each["softmax_max"]}):
            for one, other in zip(client.execute(GRADIENT, arrays | given), eight, strict=True):
                np.testing.assert_array_equal(one, other)
        # As PyTorch saves a logarithm: a view whose axes are in another order.
        turned = {name: np.asfortranarray(each) for name, each in one_each.items()}
        for one, other in zip(client.execute(GRADIENT, arrays | turned), eight, strict=True):
            np.testing.assert_array_equal(one, other)
    assert_near(eight, reference.define(GRADIENT, arrays, {}))


@pytest.mark.parametrize(("mode", "first"), [(2, 1), (3, 21)])
def test_causal_masks_are_the_servers(shared_server: Server, mode: int, first: int) -> None:
    typed = typed_call(sparse_mode=mode)
    arrays, mask = typed.arrays(), ~(np.tri(70, 90, first - 1) > 0)
    with aclgrad.Client(shared_server.address) as client:
        found = client.execute(GRADIENT, arrays, {"sparse_mode": mode})
        masked = client.execute(GRADIENT, arrays | {"atten_mask": mask})
    assert_near(found, reference.define(GRADIENT, arrays, {"sparse_mode": mode}))
    assert_near(masked, found)


def test_the_forward_pass_and_the_gradients_take_one_message(shared_server: Server) -> None:
    """What the first step returns is read as it is, and a training step may want it as well."""
    query, key, value, grad = (drawn(2, 3, 40, 16, seed=each) for each in range(4))
    with aclgrad.Client(shared_server.address) as client:
        program = client.program()
        found = scaled_dot_product_attention_backward(program, grad, query, key, value, is_causal=True)
        assert_near(program.run(*found), COMPOSITE(grad, query, key, value, is_causal=True))
        made = client.flash_attention_score(query, key, value, sparse_mode=2)
        again = client.flash_attention_score_grad(
            query, key, value, grad, made.softmax_max, made.softmax_sum, made.attention_out, sparse_mode=2
        )
        for one, other in zip(program.run(*found), again, strict=True):
            np.testing.assert_array_equal(one, other)


def test_rows_without_a_key_have_the_result_and_the_gradient_0(shared_server: Server) -> None:
    query, key, value, grad = (drawn(1, 2, 6, 8, seed=each) for each in range(4))
    mask = np.zeros((6, 6), np.bool_)
    mask[2] = True
    with aclgrad.Client(shared_server.address) as client:
        made = client.flash_attention_score(query, key, value, mask)
        assert not made.attention_out[:, :, 2].any()
        found = client.flash_attention_score_grad(
            query, key, value, grad, made.softmax_max, made.softmax_sum, made.attention_out, mask
        )
        everything = client.flash_attention_score(query, key, value, ~np.zeros((6, 6), np.bool_))
        nothing = client.flash_attention_score(query, key[:, :, :0], value[:, :, :0])
    # The reciprocal of the largest number is left of exp(0) / sum.
    assert np.abs(found.dq[:, :, 2]).max() < SMALLEST
    assert np.isfinite(np.concatenate([each.ravel() for each in found])).all()
    assert not everything.attention_out.any()
    for each in nothing:
        assert not each.any()
    assert nothing.softmax_max.shape == (1, 2, 6, 8)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf, 0.0, -1e38])
def test_statistics_of_another_call_harm_nobody(shared_server: Server, wrong: float) -> None:
    """They give the caller's own wrong gradients, and the next call its right ones."""
    typed = typed_call()
    arrays = typed.arrays()
    with aclgrad.Client(shared_server.address) as client:
        for name in ("softmax_max", "softmax_sum"):
            client.execute(GRADIENT, arrays | {name: np.full_like(arrays[name], wrong)})
        assert_near(client.execute(GRADIENT, arrays), reference.define(GRADIENT, arrays, {}))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_once(shared_server: Server, dtype: str) -> None:
    typed = TypedCase(OPERATORS[GRADIENT], typed_call(mask="B1ST").case, dtype)
    arrays = typed.arrays()
    with aclgrad.Client(shared_server.address) as client:
        found = client.execute(GRADIENT, arrays)
    unit = {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    for one, other in zip(found, reference.define(GRADIENT, arrays, {}), strict=True):
        assert one.dtype.name == dtype
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=unit, atol=1e-4)
