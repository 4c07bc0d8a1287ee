"""aclnnDropoutDoMask: masks that are longer than it needs, values that are dropped, and the rounding of the factor."""

import numpy as np
import pytest

from tools.abi.acl import Library

from .table_gradients import call, gradient_of

NAME = "dropout_do_mask"


def dropped(acl: Library, values: np.ndarray, mask: np.ndarray, prob: float) -> np.ndarray:
    typed = call(NAME, values.dtype.name, fixed={"mask": "uint8"}, self=values.shape, mask=mask.shape, prob=prob)
    return gradient_of(acl, typed, self=values, mask=mask)


def mask_of(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns a mask and its bits."""
    mask = np.random.default_rng(6).integers(0, 256, -(-count // 128) * 16).astype(np.uint8)
    return mask, np.unpackbits(mask, count=count, bitorder="little") == 1


@pytest.mark.parametrize("count", [1, 7, 127, 128, 129, 100_003])
def test_bits_are_read_from_the_least_significant_on(acl: Library, count: int) -> None:
    values, (mask, bits) = np.arange(1, count + 1, dtype=np.float32), mask_of(count)
    np.testing.assert_array_equal(dropped(acl, values, mask, 0.75), np.where(bits, values * 4, 0))


def test_what_is_dropped_is_zero_whatever_it_was(acl: Library) -> None:
    mask, bits = mask_of(64)
    values = np.array([np.nan, np.inf, -np.inf, 3e38] * 16, np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(dropped(acl, values, mask, 0.5), np.where(bits, values * 2, 0))
    np.testing.assert_array_equal(dropped(acl, values, mask, 0.0), values)
    assert not dropped(acl, values, mask, 1.0).any()


def test_the_end_of_a_longer_mask_is_not_read(acl: Library) -> None:
    mask, bits = mask_of(300)
    values = np.ones(37, np.float32)
    np.testing.assert_array_equal(dropped(acl, values, mask, 0.5), np.where(bits[:37], 2, 0))


@pytest.mark.parametrize(("dtype", "factor"), [("float16", 1.1112), ("bfloat16", 1.1130), ("float32", 1.1111)])
def test_what_is_kept_is_rounded_to_the_dtype(acl: Library, dtype: str, factor: float) -> None:
    kind = call(NAME, dtype, fixed={"mask": "uint8"}, self=(1,), mask=(16,)).arrays()["self"].dtype
    found = dropped(acl, np.full(1, 1024, kind), np.full(16, 255, np.uint8), 0.1)
    # The result is rounded, too.
    np.testing.assert_allclose(found.astype(np.float64), np.float64(np.asarray(1024 * factor).astype(kind)), rtol=1e-4)
