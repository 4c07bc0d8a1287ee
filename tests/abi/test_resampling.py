"""Padding and resampling of planes: every small size, what is not finite, and more than the table's samples have."""

import numpy as np
import pytest

from tools.abi.acl import Library

from .table_gradients import call, gradient_of

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize("rule", ["replication", "reflection"])
@pytest.mark.parametrize("size", range(1, 5))
def test_every_small_padding_of_a_row_and_a_column(acl: Library, rule: str, size: int) -> None:
    most = 4 if rule == "replication" else size
    for before in range(-6, most):
        for after in range(-6, most):
            padded = size + before + after
            if padded <= 0:
                continue
            places = np.arange(padded) - before
            walk = [*range(size), *range(size - 2, 0, -1)] if size > 1 else [0]
            cells = np.clip(places, 0, size - 1) if rule == "replication" else np.array(walk)[places % len(walk)]
            values = np.arange(1.0, size + 1, dtype=np.float32)
            for shape, padding in (((1, 1, 1, size), (before, after, 0, 0)), ((1, size, 1), (0, 0, before, after))):
                typed = call(f"{rule}_pad2d", self=shape, padding=padding)
                found = gradient_of(acl, typed, self=values.reshape(shape))
                np.testing.assert_array_equal(found.ravel(), values[cells], str(padding))


@pytest.mark.parametrize("name", ["replication_pad2d", "reflection_pad2d"])
def test_padding_moves_bits(acl: Library, name: str) -> None:
    for dtype in ("float32", "float16"):
        typed = call(name, dtype, self=(1, 1, 2, 5), padding=(3, 1, 1, 1))
        bits = np.random.default_rng(1).integers(0, 256, typed.arrays()["self"].nbytes, np.uint8)
        array = bits.view(typed.arrays()["self"].dtype).reshape(1, 1, 2, 5)
        mode = "edge" if name == "replication_pad2d" else "reflect"
        unsigned = array.view(f"u{array.itemsize}")
        expected = np.pad(unsigned, ((0, 0), (0, 0), (1, 1), (3, 1)), mode=mode)
        np.testing.assert_array_equal(gradient_of(acl, typed, self=array).view(unsigned.dtype), expected)
