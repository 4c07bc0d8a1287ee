"""The rules that operators share."""

import pytest

from aclgrad.operators.rules import same_dtype, same_leading_sizes
from aclgrad.operators.spec import Arguments
from aclgrad.tensors import DTYPES, TensorType


def arguments(**inputs: tuple[str, tuple[int, ...]]) -> Arguments:
    return Arguments({name: TensorType(DTYPES[dtype], shape) for name, (dtype, shape) in inputs.items()}, {})


def test_equal_dtypes_pass() -> None:
    given = arguments(a=("float16", (1,)), b=("float16", (2,)), c=("float16", ()))
    assert list(same_dtype(given, "a", "b", "c")) == []


def test_every_other_dtype_is_named() -> None:
    given = arguments(a=("float16", (1,)), b=("float32", (1,)), c=("float16", (1,)), d=("int8", (1,)))
    violations = list(same_dtype(given, "a", "b", "c", "d"))
    assert [each.field for each in violations] == ["inputs[b].data_type", "inputs[d].data_type"]
    assert str(violations[0]) == "inputs[b].data_type is float32, but inputs[a] is float16; send it as float16"


@pytest.mark.parametrize(
    ("reference", "other"),
    [((2, 3, 5, 7), (2, 3, 1, 1)), ((3, 5, 7), (3, 9, 9)), ((5, 7), (1, 2)), ((0, 3, 1, 1), (0, 3, 0, 0))],
    ids=str,
)
def test_equal_leading_sizes_pass(reference: tuple[int, ...], other: tuple[int, ...]) -> None:
    given = arguments(a=("float32", reference), b=("float32", other))
    assert list(same_leading_sizes(given, "a", "b", trailing=2)) == []


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ((2, 4, 1, 1), "starts with (2, 4), but inputs[a] starts with (2, 3)"),
        ((1, 3, 5, 7), "starts with (1, 3), but inputs[a] starts with (2, 3)"),
        ((3, 5, 7), "has 3 dimensions, but inputs[a] has 4"),
    ],
    ids=str,
)
def test_other_leading_sizes_are_named(other: tuple[int, ...], told: str) -> None:
    given = arguments(a=("float32", (2, 3, 5, 7)), b=("float32", other))
    (violation,) = same_leading_sizes(given, "a", "b", trailing=2)
    assert violation.field == "inputs[b].shape"
    assert violation.problem == told
