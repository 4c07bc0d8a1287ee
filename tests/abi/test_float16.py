"""Every element of 16 bits is widened and rounded as numpy does it, at every vector level."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import Library

from .programs_in_forks import call_of

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(1, 1, 1, -1)

POSITIVE = np.float16(0)


def averaged(acl: Library, grad: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    with acl.tensor(grad) as first, acl.tensor(np.full(shape, 7, grad.dtype)) as out:
        acl.run("aclnnAdaptiveAvgPool2dBackward", first.handle, out.handle, out.handle)
        return out.read_storage()


def rows_added(acl: Library, pairs: np.ndarray) -> np.ndarray:
    """Returns the sums of two rows of the upper one, which was padded to both."""
    shape = (*pairs.shape[:-2], 1, pairs.shape[-1])
    with (
        acl.tensor(pairs) as grad,
        acl.tensor(np.full(shape, 7, pairs.dtype)) as out,
        acl.int_array((0, 0, 1, 0)) as padding,
    ):
        acl.run("aclnnReplicationPad2dBackward", grad.handle, out.handle, padding, out.handle)
        return out.read_storage()


def same(result: np.ndarray, expected: np.ndarray) -> bool:
    """The same bits, except that signalling NaNs become quiet."""
    numbers = ~np.isnan(expected)
    exact = np.array_equal(result[numbers].view(np.uint16), expected[numbers].view(np.uint16))
    return exact and bool(np.isnan(result[~numbers]).all())


def print_comparisons(acl: Library) -> None:
    """Runs in a process of its own, because a process has one vector level."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for rows, values in ((1, ALL), (3, ALL), (1000, ALL[..., 5::64].copy())):
        with np.errstate(all="ignore"):
            expected = np.repeat((values.astype(np.float32) / np.float32(rows)).astype(np.float16), rows, axis=2)
            # A sum may begin at +0, so the sign of a zero is undefined.
            print(rows, same(averaged(acl, values, expected.shape) + POSITIVE, expected + POSITIVE))
    with np.errstate(all="ignore"):
        # Sums begin at +0, so none is -0.
        doubled = (ALL.astype(np.float32) * 2 + 0).astype(np.float16)
    twice = np.concatenate([ALL, ALL], axis=2)
    print("padded", same(rows_added(acl, twice), doubled))


def test_float16(run_program: Callable[..., list[str]], vector_levels: list[str]) -> None:
    for level in vector_levels:
        lines = run_program(call_of(print_comparisons), {"vector_level": level})
        assert lines == ["1 True", "3 True", "1000 True", "padded True"], level


@pytest.mark.parametrize("data_type", [np.float16, ml_dtypes.bfloat16], ids=str)
def test_every_half_value_survives_and_rounds_to_even(acl: Library, data_type: type) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(data_type)
    with np.errstate(invalid="ignore"):
        finite = np.where(np.isfinite(every.astype(np.float32)), every, 0).astype(data_type)
    shape = (1, 2, 1 << 16)
    # Rows of two are added to one: each value to the next one of its exponent, which ends between two values.
    pairs = np.stack([finite, np.roll(finite, 3)]).reshape(shape)
    with np.errstate(over="ignore"):
        expected = (pairs[0, 0].astype(np.float32) + pairs[0, 1].astype(np.float32)).astype(data_type)
    np.testing.assert_array_equal(rows_added(acl, pairs)[0, 0], expected)
