"""Masks in both layouts stand for the argmax that they were made of."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from aclgrad.masks import (
    MaskLayout,
    Pooling,
    argmax_of_input,
    argmax_of_mask,
    mask_layout,
    mask_of_argmax,
)
from aclgrad.products import Product

LAYOUTS = list(MaskLayout)


@st.composite
def poolings(draw: st.DrawFn) -> tuple[tuple[int, ...], Pooling]:
    """Draws the leading sizes (N, C) or (C,) and a legal geometry."""
    size = (draw(st.integers(1, 12)), draw(st.integers(1, 12)))
    kernel = (draw(st.integers(1, min(4, size[0]))), draw(st.integers(1, min(4, size[1]))))
    stride = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    padding = (draw(st.integers(0, kernel[0] // 2)), draw(st.integers(0, kernel[1] // 2)))
    pooling = Pooling(size, kernel, stride, padding, draw(st.booleans()))
    channels = draw(st.integers(1, 19))
    return draw(st.sampled_from([(channels,), (draw(st.integers(0, 3)), channels)])), pooling


def argmax_by_hand(plane: np.ndarray, pooling: Pooling, row: int, column: int) -> int:
    """Looks at the window's cells in row-major order, as a person would."""
    best, chosen = -np.inf, -1
    for kh in range(pooling.kernel_size[0]):
        for kw in range(pooling.kernel_size[1]):
            y = row * pooling.stride[0] - pooling.padding[0] + kh
            x = column * pooling.stride[1] - pooling.padding[1] + kw
            if 0 <= y < plane.shape[0] and 0 <= x < plane.shape[1] and (chosen < 0 or plane[y, x] > best):
                best, chosen = plane[y, x], y * plane.shape[1] + x
    return chosen


@given(poolings(), st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_the_argmax_is_the_first_of_the_largest_cells(drawn: tuple[tuple[int, ...], Pooling], seed: int) -> None:
    leading, pooling = drawn
    # Few values, so that ties are common.
    values = np.random.default_rng(seed).integers(0, 4, (*leading, *pooling.input_size)).astype(np.float32)
    pooled, argmax = argmax_of_input(values, pooling)
    assert pooled.shape == argmax.shape == (*leading, *pooling.output_size)
    for position in np.ndindex(*argmax.shape):
        plane = values[position[:-2]]
        expected = argmax_by_hand(plane, pooling, *position[-2:])
        assert argmax[position] == expected
        assert pooled[position] == plane.reshape(-1)[expected]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
@given(drawn=poolings(), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, deadline=None)
def test_a_mask_gives_back_its_argmax(layout: MaskLayout, drawn: tuple[tuple[int, ...], Pooling], seed: int) -> None:
    leading, pooling = drawn
    # No device reads the argmax of single cells as a prefix: the buffer is too small for it.
    assume(layout is MaskLayout.UINT16_BITS or pooling.window_cells > 1)
    values = np.random.default_rng(seed).standard_normal((*leading, *pooling.input_size))
    _, argmax = argmax_of_input(values, pooling)
    mask = mask_of_argmax(argmax, pooling, layout)
    assert mask.dtype == np.int8
    assert mask.shape == pooling.mask_shape(leading)
    np.testing.assert_array_equal(argmax_of_mask(mask, pooling, layout), argmax)


def test_the_prefix_is_little_endian_at_the_start_of_the_buffer() -> None:
    pooling = Pooling.of((2, 4), 2)
    argmax = np.array([[[[5, 2]]]], np.int32)
    mask = mask_of_argmax(argmax, pooling, MaskLayout.INT32_PREFIX)
    assert mask.shape == (1, 1, 4, 64)
    assert mask.reshape(-1)[:8].tolist() == [5, 0, 0, 0, 2, 0, 0, 0]


def test_a_bit_stands_for_a_channel_in_the_word_of_its_cell() -> None:
    """Written out from the layout of the module's docstring: channel 17 is bit 1 of the second word group."""
    pooling = Pooling.of((2, 4), 2)
    argmax = np.zeros((1, 18, 1, 2), np.int32)
    argmax[..., 1] = 2
    argmax[0, 17, 0, 1] = 7  # row 1, column 3: cell k = 3 of the second window
    words = mask_of_argmax(argmax, pooling, MaskLayout.UINT16_BITS).reshape(-1).view("<u2")
    words = words[: 1 * 2 * 4 * 2 * 16].reshape(1, 2, 4, 32)
    assert words[0, 0, 0, :2].tolist() == [0xFFFF, 0xFFFF]
    assert words[0, 1, 0, :2].tolist() == [0b11, 0b01]
    assert words[0, 1, 3, :2].tolist() == [0, 0b10]


@pytest.mark.parametrize(
    ("product", "kernel", "layout"),
    [
        (Product.ATLAS_A2, (3, 3), MaskLayout.INT32_PREFIX),
        (Product.ATLAS_A3, (1, 2), MaskLayout.INT32_PREFIX),
        (Product.ATLAS_A2, (1, 1), MaskLayout.UINT16_BITS),
        (Product.ATLAS_TRAINING, (3, 3), MaskLayout.UINT16_BITS),
    ],
)
def test_each_product_has_its_layout(product: Product, kernel: tuple[int, int], layout: MaskLayout) -> None:
    assert mask_layout(product, kernel) is layout
