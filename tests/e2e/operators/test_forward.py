"""Forward operators: numbers of any kind, lists of tensors, and outputs that begin as copies of inputs."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.errors import InvalidFieldError
from aclgrad.tensors import TensorType
from tests.bounds import bits_of
from tools.serving import Server

X = np.arange(12, dtype=np.float32).reshape(3, 4)
INT32 = np.iinfo(np.int32)


@pytest.fixture
def client(shared_server: Server) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(shared_server.address) as client:
        yield client


def test_integers_wrap(client: aclgrad.Client) -> None:
    edges = np.array([INT32.max, INT32.min, 3], np.int32)
    assert client.add(edges, np.ones(1, np.int32)).tolist() == [INT32.min, INT32.min + 1, 4]
    assert client.muls(edges, 2).tolist() == [-2, 0, 6]
    assert client.neg(edges).tolist() == [-INT32.max, INT32.min, -3]
    assert client.abs(edges).tolist() == [INT32.max, INT32.min, 3]
    assert client.pow_tensor_scalar(edges, 3).tolist() == (edges.astype(np.int64) ** 3).astype(np.int32).tolist()


def test_division_by_0_is_infinite_or_no_number(client: aclgrad.Client) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        for numbers in (np.array([1, -1, 0], np.float32), np.array([1, -1, 0], np.int32)):
            expected = (numbers / np.float32(0)).astype(np.float32)
            for found in (client.div(numbers, np.zeros(3, numbers.dtype)), client.divs(numbers, 0)):
                np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (np.int32, np.int64, np.int64),
        (np.float16, np.float32, np.float32),
        (np.int64, np.float16, np.float16),
        (np.float32, np.bool_, np.float32),
        (np.int32, np.bool_, np.int32),
    ],
)
def test_types_are_promoted_but_not_by_scalars_of_their_kind(
    client: aclgrad.Client, one: Any, other: Any, expected: Any
) -> None:
    tensor, second = np.array([1, 2], one), np.array([1, 0], other)
    assert client.mul(tensor, second).dtype == expected
    scalar = client.mul(tensor, np.array(1, other)).dtype
    assert scalar == (expected if np.dtype(one).kind != np.dtype(other).kind else one)


def test_a_number_has_the_kind_that_it_is_given_in(client: aclgrad.Client) -> None:
    whole = np.array([1, 2], np.int32)
    found = [client.adds(whole, number) for number in (1, 1.0, True)]
    assert [each.dtype.name for each in found] == ["int32", "float32", "int32"]
    assert [each.tolist() for each in found] == [[2, 3]] * 3
    assert client.muls(X, 2).dtype == np.float32


def test_a_part_is_copied_into_a_new_tensor(client: aclgrad.Client) -> None:
    before, column = X.copy(), np.full((3, 1), -1, np.float16)
    found = client.inplace_copy(X, column, shape=(3, 2), offset=1, strides=(4, 2))
    expected = X.copy()
    expected[:, 1::2] = -1
    np.testing.assert_array_equal(found, expected, strict=True)
    np.testing.assert_array_equal(X, before)
    # Also into what lies otherwise.
    found = client.inplace_copy(X.T, np.zeros(3, np.float32), shape=(3,), offset=1)
    assert found.reshape(-1)[1:4].tolist() == [0, 0, 0]
    np.testing.assert_array_equal(np.delete(found.reshape(-1), [1, 2, 3]), np.delete(X.T.reshape(-1), [1, 2, 3]))


def test_a_type_stands_for_what_is_overwritten_as_a_whole(client: aclgrad.Client) -> None:
    halves = client.inplace_copy(TensorType.of("float16", X.shape), X)
    np.testing.assert_array_equal(halves, X.astype(np.float16), strict=True)
    rows = client.inplace_copy(TensorType.of(np.int32, (2, 4)), X[1])
    np.testing.assert_array_equal(rows, np.tile(X[1].astype(np.int32), (2, 1)), strict=True)
    with pytest.raises(InvalidFieldError, match=r"inputs\[self\]\.data.* is missing; send the values"):
        client.inplace_copy(TensorType.of("float32", (12,)), np.ones(2, np.float32), shape=(2,))


def test_neither_the_table_of_a_program_nor_an_earlier_output_changes(client: aclgrad.Client) -> None:
    p = client.program()
    table = p.relu(X)
    shifted = p.adds(X, 1)
    written = p.inplace_copy(X, np.zeros(4, np.float32), shape=(4,))
    over = p.inplace_copy(shifted, written)
    later = p.add(shifted, X)
    found = p.run(table, shifted, written, over, later)
    zeroed = np.concatenate([np.zeros((1, 4), np.float32), X[1:]])
    for result, expected in zip(found, (X, X + 1, zeroed, zeroed, X + 1 + X), strict=True):
        np.testing.assert_array_equal(result, expected)


def test_a_condition_and_a_mask_are_made_on_the_server(client: aclgrad.Client) -> None:
    p = client.program()
    mask = p.gt_scalar(X, 5)
    chosen, kept = p.run(p.s_where(mask, X, p.neg(X)), p.mul(X, mask))
    np.testing.assert_array_equal(chosen, np.where(X > 5, X, -X))
    np.testing.assert_array_equal(kept, X * (X > 5))


def test_a_tensor_is_filled_without_sending_values(client: aclgrad.Client) -> None:
    for value, dtype in ((0.1, np.float16), (7, np.int64), (True, np.bool_)):
        found = client.inplace_fill_scalar(TensorType.of(dtype, (2, 3)), value)
        np.testing.assert_array_equal(found, np.full((2, 3), value, dtype), strict=True)
    # As the gradient of a slice: zeros, and a copy into a part.
    p = client.program()
    zeros = p.inplace_fill_scalar(TensorType.of(np.float32, (4, 6)), 0)
    (found,) = p.run(p.inplace_copy(zeros, X[:, :2], shape=(3, 2), offset=7, strides=(6, 2)))
    expected = np.zeros((4, 6), np.float32)
    expected[1:4, 1:5:2] = X[:, :2]
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("count", [1, 2, 33, 1000, 1024])
def test_lists_of_tensors_are_joined(client: aclgrad.Client, count: int) -> None:
    parts = [X[:, : 1 + place % 3] + place for place in range(count)]
    np.testing.assert_array_equal(client.cat(parts, 1), np.concatenate(parts, 1), strict=True)
    p = client.program()
    made = [p.relu(each) for each in parts[:40]]
    (found,) = p.run(p.cat([*made, X[0:3].astype(np.float16)], -1))
    np.testing.assert_array_equal(found, np.concatenate([*parts[:40], X], 1), strict=True)


def test_a_list_in_a_call_of_many_chunks_is_joined(shared_server: Server) -> None:
    with aclgrad.Client(shared_server.address, max_message_bytes=2000) as client:
        parts = [X + place for place in range(50)]
        np.testing.assert_array_equal(client.cat(parts), np.concatenate(parts), strict=True)


def test_a_list_without_tensors_or_with_gaps_is_refused(client: aclgrad.Client) -> None:
    with pytest.raises(InvalidFieldError, match=r"inputs\[tensors_0\] is missing; send it"):
        client.cat([])
    with pytest.raises(InvalidFieldError, match=r"are 1025 tensors; send at most 1024 at a time"):
        client.cat([X[:, :1]] * 1025, 1)
    with pytest.raises(InvalidFieldError, match=r"inputs\[tensors\] is a ndarray; give a sequence of arrays"):
        client.cat(X)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidFieldError, match=r"inputs\[tensors_2\]\.shape is \(2, 4\), and inputs\[tensors_0\] is \(3, 4\)"
    ):
        client.cat([X, X, X[:2]], 1)
    with pytest.raises(InvalidFieldError, match=r"inputs\[tensors_1\] is not known; call it tensors_0"):
        client.execute("cat", {"tensors_1": X})


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "shapes": (lambda client: client.add(X, np.ones(3, np.float32)), r"inputs\[other\]\.shape is \(3,\)"),
    "nine_dimensions": (lambda client: client.neg(np.ones((1,) * 9, np.float32)), "9"),
    "part_beyond_the_end": (
        lambda client: client.inplace_copy(X, X, shape=(3, 4), offset=1),
        r"attributes\[shape\] is \(3, 4\), whose last element is 13, and inputs\[self\].* has 12",
    ),
    "part_over_itself": (
        lambda client: client.inplace_copy(X, X[0], shape=(4,), strides=(0,)),
        r"attributes\[strides\] is \(0,\), with which elements of \(4,\) may be in one place",
    ),
    "strides_of_another_rank": (lambda client: client.inplace_copy(X, X, shape=(3,), strides=(1, 1)), "has 2 values"),
    "part_without_a_shape": (lambda client: client.inplace_copy(X, X, offset=3), "is there without a shape"),
    "alpha_of_integers": (
        lambda client: client.add(X.astype(np.int32), np.ones(4, np.int32), 0.5),
        r"attributes\[alpha\] is 0\.5, and the result is int32; send an integer",
    ),
    "number_that_the_dtype_does_not_hold": (
        lambda client: client.gt_scalar(X.astype(np.float16), 0.1),
        r"is 0\.1, which float16 does not hold.*; send 0\.09997558",
    ),
    "number_that_overflows": (lambda client: client.muls(X.astype(np.float16), 1e5), "which overflows float16"),
    "negative_power": (lambda client: client.pow_tensor_scalar(X.astype(np.int32), -1), "the results are integers"),
    "no_limit": (lambda client: client.clamp(X), "is missing, and so is clip_value_max"),
    "text_as_a_number": (lambda client: client.muls(X, "2"), "send a number, an integer or a bool"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_device_would_compute_otherwise_is_refused(client: aclgrad.Client, case: str) -> None:
    call, told = REFUSED[case]
    with pytest.raises(InvalidFieldError, match=told):
        call(client)
    assert bits_of(client.neg(X)) == bits_of(-X)
