"""Every element of 16 bits is widened and rounded as numpy does it, at every vector level."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tools.abi.acl import Library

from .programs_in_forks import call_of
from .table_gradients import call, gradient_of

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(1, 1, 1, -1)

POSITIVE = np.float16(0)


def added(acl: Library, pairs: np.ndarray) -> np.ndarray:
    """Returns the sums of two rows of the upper one, which was padded to both."""
    shape, dtype = (*pairs.shape[:-2], 1, pairs.shape[-1]), pairs.dtype.name
    typed = call("replication_pad2d_backward", dtype, grad_output=pairs.shape, self=shape, padding=(0, 0, 1, 0))
    return gradient_of(acl, typed, grad_output=pairs)


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
        typed = call("adaptive_avg_pool2d_backward", "float16", grad_output=values.shape, self=expected.shape)
        found = gradient_of(acl, typed, grad_output=values)
        # A sum may begin at +0, so the sign of a zero is undefined.
        print(rows, same(found + POSITIVE, expected + POSITIVE))
    with np.errstate(all="ignore"):
        # Sums begin at +0, so none is -0.
        doubled = (ALL.astype(np.float32) * 2 + 0).astype(np.float16)
    twice = np.concatenate([ALL, ALL], axis=2)
    typed = call("replication_pad2d_backward", "float16", grad_output=twice.shape, self=ALL.shape, padding=(0, 0, 1, 0))
    print("padded", same(gradient_of(acl, typed, grad_output=twice), doubled))


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
    np.testing.assert_array_equal(added(acl, pairs)[0, 0], expected)
