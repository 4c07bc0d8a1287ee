"""Cross-entropy of rows of logits with their classes: one message of two steps."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import numpy as jnp

import aclgrad
import aclgrad.jax
from tests.jax.formulas import drawn
from tests.jax.products import assert_close, in_float64

GENERATOR = np.random.default_rng(5)
LABELS = GENERATOR.integers(0, 7, (3, 4))


def right(logits: Any, labels: Any, axis: int = -1) -> Any:
    moved = jnp.moveaxis(logits, axis, -1)
    return jax.nn.logsumexp(moved, -1) - (moved * jax.nn.one_hot(labels, moved.shape[-1])).sum(-1)


def cubes(function: Any, labels: Any, **options: Any) -> Any:
    return lambda logits: (function(logits, labels, **options) ** 3).sum()


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_losses_and_gradients_are_those_of_the_formula_in_one_message(
    client: aclgrad.Client, programs: list[aclgrad.Program], axis: int, is_compiled: bool
) -> None:
    logits = np.moveaxis(drawn(3, 4, 7), -1, axis)
    ours = cubes(aclgrad.jax.softmax_cross_entropy_with_integer_labels, LABELS, axis=axis, client=client)
    found = (jax.jit if is_compiled else lambda each: each)(jax.value_and_grad(ours))(logits)
    assert len(programs) == 1
    with jax.enable_x64(True):
        assert_close(found, jax.value_and_grad(cubes(right, LABELS, axis=axis))(jnp.asarray(logits, jnp.float64)))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_halves_have_gradients_of_their_own_dtype(client: aclgrad.Client, dtype: Any) -> None:
    logits = jnp.asarray(drawn(3, 4, 7), dtype)
    ours = aclgrad.jax.softmax_cross_entropy_with_integer_labels
    found = jax.grad(lambda each: ours(each, LABELS, client=client).sum())(logits)
    assert found.dtype == dtype
    assert_close(found, in_float64(jax.grad(lambda each: right(each, LABELS).sum()), np.asarray(logits)), 0.02)


def test_vmap_makes_one_message(client: aclgrad.Client, programs: list[aclgrad.Program]) -> None:
    """Of classes that each element has, or all have in common."""
    logits, labels = drawn(2, 3, 4, 7), np.stack([LABELS, LABELS[::-1]])

    def gradient(logits: Any, labels: Any) -> Any:
        return jax.grad(cubes(aclgrad.jax.softmax_cross_entropy_with_integer_labels, labels, client=client))(logits)

    own = jax.vmap(gradient)(logits, labels)
    common = jax.jit(jax.vmap(jax.vmap(gradient, (0, None)), (0, None)))(logits[None], LABELS)[0]
    assert len(programs) == 2
    for place in range(2):
        for found, given in ((own, labels[place]), (common, LABELS)):
            with jax.enable_x64(True):
                expected = jax.grad(cubes(right, given))(jnp.asarray(logits[place], jnp.float64))
            assert_close(found[place], expected)


def test_nothing_is_sent_for_no_rows_or_for_the_losses_alone(
    client: aclgrad.Client, programs: list[aclgrad.Program]
) -> None:
    function = aclgrad.jax.softmax_cross_entropy_with_integer_labels
    empty = jax.grad(lambda logits: function(logits, LABELS[:0], client=client).sum())(drawn(0, 4, 7))
    assert empty.shape == (0, 4, 7)
    assert function(drawn(3, 4, 7), LABELS, client=client).shape == (3, 4)
    assert programs == []


def test_a_second_derivative_is_refused(client: aclgrad.Client) -> None:
    first = jax.grad(cubes(aclgrad.jax.softmax_cross_entropy_with_integer_labels, LABELS, client=client))
    with pytest.raises(aclgrad.InvalidFieldError, match="labels has no second derivative"):
        jax.grad(lambda logits: first(logits).sum())(drawn(3, 4, 7))


@pytest.mark.parametrize(
    ("logits", "labels", "axis", "message"),
    [
        ([1.0], LABELS, -1, "logits is a list; give a jax.Array"),
        (LABELS, LABELS, -1, "logits is int32; give float32"),
        (drawn(3, 4, 7), drawn(3, 4), -1, "labels is float32; give int32 or int64"),
        (drawn(3, 4, 7), LABELS[:2], -1, r"labels.shape is \(2, 4\); give \(3, 4\)"),
        (drawn(3, 4, 7), LABELS, 3, r"axis is 3 for logits of \(3, 4, 7\); give one of their axes"),
    ],
)
def test_arguments_are_refused_by_name(
    client: aclgrad.Client, logits: Any, labels: Any, axis: int, message: str
) -> None:
    with pytest.raises(aclgrad.InvalidFieldError, match=f"^{message}"):
        aclgrad.jax.softmax_cross_entropy_with_integer_labels(logits, labels, axis, client=client)


def test_labels_that_are_no_classes_are_refused_in_the_backward_pass(client: aclgrad.Client) -> None:
    labels = LABELS.copy()
    labels[1, 2] = 7
    gradient = jax.grad(cubes(aclgrad.jax.softmax_cross_entropy_with_integer_labels, labels, client=client))
    with pytest.raises(Exception, match="target"):
        jax.block_until_ready(gradient(drawn(3, 4, 7)))
