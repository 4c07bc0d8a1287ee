"""The composite of attention: its definition by differences, and programs by the definition."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import aclgrad
import aclgrad.testing
from aclgrad.composites import DEFINITIONS, scaled_dot_product_attention_backward

Array = np.ndarray[Any, Any]

DEFINITION = DEFINITIONS["scaled_dot_product_attention_backward"]
B, N, S, T, D = 2, 4, 5, 7, 8
MASKS = ((), (T,), (S, T), (S, 1), (N, S, T), (1, S, T), (B, 1, 1, T), (B, 1, S, 1), (1, N, S, T), (B, N, 1, T))
STEP = 1e-5


@pytest.fixture(scope="module")
def client() -> Iterator[aclgrad.Client]:
    with aclgrad.testing.serve() as server, aclgrad.Client(server.target) as found:
        yield found


def drawn(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Array:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape).astype(dtype)


def operands(kv_heads: int = N, dtype: Any = np.float32, value_size: int = D) -> list[Array]:
    """Returns the gradient of the result, query, key and value."""
    shapes = (B, N, S, value_size), (B, N, S, D), (B, kv_heads, T, D), (B, kv_heads, T, value_size)
    return [drawn(*shape, dtype=dtype, seed=number) for number, shape in enumerate(shapes)]


def mask_of(kind: str, shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Returns a mask of bools, of numbers, or of numbers and minus infinity; a row may have no key."""
    generator = np.random.default_rng(len(shape))
    if kind == "bools":
        return np.asarray(generator.random(shape) < 0.6)
    numbers = generator.standard_normal(shape)
    return np.asarray(np.where(generator.random(shape) < (0.4 if kind == "infinities" else 0), -np.inf, numbers), dtype)


def forward(
    query: Array, key: Array, value: Array, mask: Array | None, *, is_causal: bool, scale: float
) -> tuple[Array, Array]:
    """Returns the result and the logarithms of the sums of a row's exponentials."""
    group = query.shape[1] // key.shape[1]
    keys, values = (np.repeat(each.astype(np.float64), group, 1) for each in (key, value))
    scores = query.astype(np.float64) @ keys.swapaxes(2, 3) * scale
    if mask is not None:
        scores = scores + (np.where(mask, 0.0, -np.inf) if mask.dtype == np.bool_ else mask)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[2:]) > 0, scores, -np.inf)
    logarithms = np.logaddexp.reduce(scores, -1, initial=-np.inf)
    is_seen = np.isfinite(logarithms)[..., None]
    shares = np.exp(scores - np.where(is_seen, logarithms[..., None], 0.0))
    return shares @ values, logarithms


CALLS: list[tuple[Any, bool]] = [
    (None, False),
    (None, True),
    *((mask_of(kind, shape), False) for kind in ("bools", "numbers", "infinities") for shape in MASKS),
]


def assert_near(found: Any, expected: Any, error: float = 1e-5) -> None:
    for gradient, truth in zip(found, expected, strict=True):
        assert gradient.shape == truth.shape
        np.testing.assert_allclose(gradient.astype(np.float64), truth, rtol=error, atol=error)


@pytest.mark.parametrize("kv_heads", [N, 2, 1])
@pytest.mark.parametrize(("mask", "is_causal"), CALLS)
def test_the_definition_is_the_gradient_of_attention(mask: Any, is_causal: bool, kv_heads: int) -> None:
    grad, *given = operands(kv_heads, np.float64, value_size=3)
    found = DEFINITION(grad, *given, mask, is_causal=is_causal, scale=0.3)
    for index, gradient in enumerate(found):
        direction = drawn(*given[index].shape, dtype=np.float64, seed=9)
        moved = [
            [each + step * direction if number == index else each for number, each in enumerate(given)]
            for step in (STEP, -STEP)
        ]
        higher, lower = (forward(*each, mask, is_causal=is_causal, scale=0.3)[0] for each in moved)
        assert (grad * (higher - lower)).sum() / (2 * STEP) == pytest.approx((gradient * direction).sum(), abs=1e-7)


@pytest.mark.parametrize(("mask", "is_causal"), CALLS)
@pytest.mark.parametrize("is_saved", [False, True], ids=["alone", "saved"])
def test_gradients_of_attention(client: aclgrad.Client, mask: Any, is_causal: bool, is_saved: bool) -> None:
    """With what a forward pass saved, or with the pass as a step before. Rows without a key have the gradient 0."""
    grad, *given = operands(2)
    kept: dict[str, Array] = {}
    if is_saved:
        output, logarithms = forward(*given, mask, is_causal=is_causal, scale=0.3)
        kept = {"output": output.astype(np.float32), "logsumexp": logarithms.astype(np.float32)}
    program = client.program()
    found = scaled_dot_product_attention_backward(program, grad, *given, mask, is_causal=is_causal, scale=0.3, **kept)
    assert len(program) == (1 if is_saved else 2)
    assert_near(program.run(*found), DEFINITION(grad, *given, mask, is_causal=is_causal, scale=0.3))


def test_the_scale_is_that_of_the_heads_unless_it_is_given(client: aclgrad.Client) -> None:
    grad, *given = operands()
    program = client.program()
    found = program.run(*scaled_dot_product_attention_backward(program, grad, *given))
    assert_near(found, DEFINITION(grad, *given, scale=D**-0.5))


@pytest.mark.parametrize("shape", [(S, T), (B, 1, 1, T), (1, N, S, T)], ids=str)
@pytest.mark.parametrize("kind", ["bools", "numbers"])
def test_masks_may_be_outputs_of_the_program(client: aclgrad.Client, kind: str, shape: tuple[int, ...]) -> None:
    grad, *given = operands()
    mask = mask_of(kind, shape)
    program = client.program()
    if kind == "bools":
        made = program.gt_tensor(mask.astype(np.float32), np.zeros(shape, np.float32))
    else:
        made = program.mul(mask, np.ones(shape, np.float32))
    found = program.run(*scaled_dot_product_attention_backward(program, grad, *given, made))
    assert_near(found, DEFINITION(grad, *given, mask))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("is_output", [False, True], ids=["array", "output"])
def test_rows_of_the_lowest_number_see_all_keys_alike(client: aclgrad.Client, is_output: bool, dtype: Any) -> None:
    """Models that pad write masks so; rows of minus infinity see none."""
    grad, *given = operands(dtype=dtype)
    mask = np.zeros((B, 1, S, T), dtype)
    mask[0, :, :2] = ml_dtypes.finfo(dtype).min
    mask[1, :, 1], mask[1, :, 2, :3] = -np.inf, ml_dtypes.finfo(dtype).min
    program = client.program()
    sent = program.mul(mask, np.ones((B, 1, S, 1), dtype)) if is_output else mask
    found = program.run(*scaled_dot_product_attention_backward(program, grad, *given, sent))
    expected = DEFINITION(*(each.astype(np.float64) for each in (grad, *given, mask)))
    assert_near(found, expected, 1e-5 if dtype == np.float32 else 2e-2)


def test_a_wider_mask_may_hold_what_the_query_holds(client: aclgrad.Client) -> None:
    grad, *given = operands(dtype=ml_dtypes.bfloat16)
    program, mask = client.program(), np.where(mask_of("bools", (S, T)), 0.5, np.finfo(np.float32).min)
    found = program.run(*scaled_dot_product_attention_backward(program, grad, *given, mask.astype(np.float32)))
    assert_near(found, DEFINITION(*(each.astype(np.float64) for each in (grad, *given)), mask), 2e-2)


def test_transposed_operands_and_masks_that_broadcast_are_sent_as_views(client: aclgrad.Client) -> None:
    """None of them is copied, whatever shape devices take."""
    long, heads = 64, 8
    grad, query, key, value = (drawn(2, long, heads, 16, seed=each).transpose(0, 2, 1, 3) for each in range(4))
    mask = mask_of("bools", (2, 1, 1, long))
    program = client.program()
    found = scaled_dot_product_attention_backward(program, grad, query, key, value, mask)
    program.run(*found)
    assert_near(program.run(*found), DEFINITION(grad, query, key, value, mask))
    total = (4 * grad.nbytes + mask.nbytes) / 1024
    assert f"{total:.3g} KiB to the server" in str(program)


GRAD, QUERY, KEY, VALUE = operands()


@pytest.mark.parametrize(
    ("arguments", "options", "problem"),
    [
        ((GRAD, QUERY[0], KEY, VALUE), {}, "query has 3 axes; give 4"),
        ((GRAD[:1], QUERY, KEY, VALUE), {}, "grad_output is (1, 4, 5, 8); give (2, 4, 5, 8)"),
        ((GRAD, QUERY, KEY, VALUE, np.ones((S, S), bool)), {}, "attn_mask is (5, 5); give a shape that broadcasts to"),
        ((GRAD, QUERY, KEY, VALUE, np.ones((1, 1, 1, S, T), bool)), {}, "attn_mask is (1, 1, 1, 5, 7)"),
        ((GRAD, QUERY, KEY, VALUE, np.ones((S, T), np.int64)), {}, "attn_mask is int64; give bool, true where a key"),
        (
            [*(each.astype(np.float16) for each in (GRAD, QUERY, KEY, VALUE)), np.full((S, T), 0.1, np.float32)],
            {},
            "attn_mask is float32, and float16, the dtype of query, does not hold its numbers; cast it to float16",
        ),
        ((GRAD, QUERY, KEY, VALUE, np.ones((S, T), bool)), {"is_causal": True}, "attn_mask is given, and is_causal"),
        ((GRAD, QUERY, KEY, VALUE), {"output": GRAD}, "logsumexp is missing; give both"),
        ((GRAD, QUERY, KEY, VALUE), {"logsumexp": GRAD[..., 0]}, "output is missing; give both"),
        ((GRAD, QUERY, KEY, VALUE), {"logsumexp": GRAD, "output": GRAD}, "logsumexp is (2, 4, 5, 8); give (2, 4, 5)"),
        ((GRAD, QUERY, KEY, VALUE), {"logsumexp": GRAD[..., 0], "output": GRAD[..., 1:]}, "output is (2, 4, 5, 7)"),
    ],
)
def test_what_does_not_fit_is_refused(
    client: aclgrad.Client, arguments: Any, options: dict[str, Any], problem: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError) as caught:
        scaled_dot_product_attention_backward(client.program(), *arguments, **options)
    assert problem in str(caught.value)
