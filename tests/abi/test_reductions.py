"""Sums, means and largest elements: every set of axes of views, every type, long rows, and the same bits everywhere."""

import hashlib
from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest

from tools.abi.acl import Library

from .products import ROUNDING, TYPES, numbers, reduced
from .programs_in_forks import call_of

INTEGERS = ("int8", "int16", "int32", "int64", "uint8")


def assert_sums(
    found: np.ndarray, array: np.ndarray, dims: tuple[int, ...], name: str = "", reduce: Callable = np.sum
) -> None:
    wide = array.astype(np.float64)
    axes = dims or tuple(range(array.ndim))
    keeps = found.ndim == array.ndim
    truth, sizes = reduce(wide, axes, keepdims=keeps), reduce(abs(wide), axes, keepdims=keeps)
    bound = 2.0**-17 * sizes + ROUNDING.get(found.dtype.name, 0) * abs(truth) + 1e-30
    assert (abs(found.astype(np.float64) - truth) <= bound).all(), (name, found.ravel()[:3], truth.ravel()[:3])


def views(dtype: str) -> dict[str, np.ndarray]:
    base = numbers(1, (6, 5, 7, 34), dtype)
    return {
        "row-major": base,
        "reversed": base[::-1, :, ::-1],
        "transposed": base.T,
        "permuted": base.transpose(2, 0, 3, 1),
        "every second": base[:, ::2, :, 1::2],
        "repeated": np.broadcast_to(base[:, :1], base.shape),
        "repeated rows": np.broadcast_to(base[..., :1], base.shape),
    }


@pytest.mark.parametrize("dtype", TYPES)
def test_every_set_of_axes_of_views(acl: Library, dtype: str) -> None:
    for name, view in views(dtype).items():
        for count in range(5):
            for dims in combinations(range(4), count):
                for keeps in (False, True):
                    assert_sums(reduced(acl, view, dims, keeps=keeps), view, dims, f"{name} {dims}")
                means = reduced(acl, view, dims, symbol="aclnnMean")
                assert_sums(means, view, dims, f"mean {name} {dims}", np.mean)
                largest = reduced(acl, view, dims, symbol="aclnnAmax")
                np.testing.assert_array_equal(largest, view.max(dims or None), f"{name} {dims}")
        assert_sums(reduced(acl, view, (-1, 0)), view, (-1, 0), name)


@pytest.mark.parametrize(
    "shape",
    [
        (1,), (31,), (33,), (8193,), (1_000_001,), (100_000, 3), (3, 100_000), (5000, 513), (300_001, 1),
        (2, 70_001, 2), (40_000, 2, 4),
    ],
    ids=str,
)  # fmt: skip
def test_long_sums(acl: Library, shape: tuple[int, ...]) -> None:
    for dtype in TYPES:
        array = abs(numbers(2, shape, dtype))
        for dims in ((), *((axis,) for axis in range(len(shape)))):
            assert_sums(reduced(acl, array, dims, np.float32), array, dims, f"{dtype} {dims}")
            means = reduced(acl, array, dims, np.float32, symbol="aclnnMean")
            assert_sums(means, array, dims, f"mean {dtype} {dims}", np.mean)
            largest = reduced(acl, array, dims, symbol="aclnnAmax")
            np.testing.assert_array_equal(largest, array.max(dims or None), f"{dtype} {dims}")


def test_types(acl: Library) -> None:
    array = (np.random.default_rng(3).random((7, 300)) * 100).astype(np.int8)
    for name in INTEGERS:
        given = array.astype(name)
        for to in ("int64", name, "float64", "float32"):
            expected = given.astype(to).sum(1, dtype=to)
            np.testing.assert_array_equal(reduced(acl, given, (1,), to), expected, err_msg=f"{name} {to}")
    flags = array > 50
    np.testing.assert_array_equal(reduced(acl, flags, (0,), np.int64), flags.sum(0))
    for name in ("float64", "complex64", "complex128"):
        given = (array * (1.5 - 2j)).astype(name) if name.startswith("complex") else array / 8
        np.testing.assert_allclose(reduced(acl, given.T, (0,)), given.T.sum(0), rtol=1e-6)
    np.testing.assert_allclose(reduced(acl, numbers(4, (9, 9)), (1,), np.float64), numbers(4, (9, 9)).sum(1), rtol=1e-5)


def test_types_of_means(acl: Library) -> None:
    array = (np.random.default_rng(3).random((7, 300)) * 100).astype(np.int8)
    for name in INTEGERS:
        found = reduced(acl, array.astype(name), (1,), "float32", symbol="aclnnMean")
        np.testing.assert_allclose(found, array.mean(1), rtol=1e-6)
        # A quotient of integers loses what is behind the point.
        truncated = np.trunc(array.astype(name).sum(1, dtype="int64") / 300).astype(name)
        np.testing.assert_array_equal(reduced(acl, array.astype(name), (1,), name, symbol="aclnnMean"), truncated)
    for name in ("float64", "complex64", "complex128"):
        given = (array * (1.5 - 2j)).astype(name) if name.startswith("complex") else array / 8
        np.testing.assert_allclose(reduced(acl, given.T, (0,), symbol="aclnnMean"), given.T.mean(0), rtol=1e-6)


def test_types_of_largest_elements(acl: Library) -> None:
    for name in (*INTEGERS, "float64", "bool"):
        array = np.random.default_rng(3).integers(-(2**62), 2**62, (9, 1300)).astype(name)
        for dims in ((0,), (1,), ()):
            found = reduced(acl, array, dims, symbol="aclnnAmax")
            np.testing.assert_array_equal(found, array.max(dims or None), f"{name} {dims}")


@pytest.mark.parametrize("dtype", [*TYPES, "float64"])
def test_nan_is_larger_than_all_numbers_and_zero_than_negative_zero(acl: Library, dtype: str) -> None:
    for place in (0, 64, 699):
        array = np.full((5, 700), -np.inf, TYPES.get(dtype, np.float64))
        array[1, place], array[2] = -np.nan, -0.0
        array[3, place], array[4, place] = np.inf, -1
        array[2, place] = 0.0
        for view, dim in ((array, 1), (array.T, 0), (array.T.copy(), 0)):
            found = reduced(acl, view, (dim,), symbol="aclnnAmax").astype(np.float64)
            np.testing.assert_array_equal(found, [-np.inf, np.nan, 0, np.inf, -1])
            assert not np.signbit(found[2])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64", "int32"])
def test_means_of_nothing(acl: Library, dtype: str) -> None:
    """Whatever the shape of the result is."""
    for shape, dims in (((3, 0), (1,)), ((0,), ()), ((0, 4), (1,))):
        found = reduced(acl, np.ones(shape, TYPES.get(dtype, dtype)), dims, symbol="aclnnMean")
        assert (found == 0).all() if dtype == "int32" else np.isnan(found.astype(np.float64)).all()
    with (
        acl.tensor(np.ones((0, 3), np.float32)) as self,
        acl.tensor(np.zeros(5, np.float32)) as out,
        acl.int_array((0,)) as dims_array,
    ):
        acl.run("aclnnMean", self.handle, dims_array, False, 0, out.handle)
        assert np.isnan(out.read_storage()).all()


@pytest.mark.parametrize(("shape", "dims"), [((3, 0), (1,)), ((0,), ()), ((0, 4), (0,)), ((2, 0), (0,)), ((), ())])
def test_empty(acl: Library, shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    found = reduced(acl, np.ones(shape, np.float32), dims)
    np.testing.assert_array_equal(found, np.ones(shape, np.float32).sum(dims or None))


def test_what_is_not_finite(acl: Library) -> None:
    array = np.ones((4, 700), np.float32)
    array[0, 3], array[1, 650], array[2, 0], array[2, 699] = np.nan, np.inf, np.inf, -np.inf
    np.testing.assert_array_equal(reduced(acl, array, (1,)), [np.nan, np.inf, np.nan, 700])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(reduced(acl, array, (0,)), array.sum(0))


def print_bits(acl: Library) -> None:
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for shape in ((300_007,), (70_001, 3), (3, 70_001), (2000, 700)):
        for dtype in TYPES:
            array = numbers(5, shape, dtype)
            for dims in ((), *((axis,) for axis in range(len(shape)))):
                for symbol in ("aclnnReduceSum", "aclnnMean", "aclnnAmax"):
                    print(hashlib.sha256(reduced(acl, array, dims, symbol=symbol).tobytes()).hexdigest())


def test_the_same_bits_everywhere(run_program: Callable[..., list[str]], vector_levels: list[str]) -> None:
    first = run_program(call_of(print_bits), {"vector_level": "baseline", "threads": 1})
    for level in vector_levels:
        for threads in (1, 2, 7):
            assert run_program(call_of(print_bits), {"vector_level": level, "threads": threads}) == first
