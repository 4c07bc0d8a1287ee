"""Native code finds values that must not reach a device, at any place and alignment."""

import itertools

import numpy as np
import pytest

import aclgrad_native
from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_of_argmax
from aclgrad_native import IndexCheck, InvalidValueError, MaskEncoding

POOLING = Pooling((9, 10), (3, 2), (2, 3), (1, 1), ceil_mode=True)


def native(pooling: Pooling) -> aclgrad_native.Pooling:
    return aclgrad_native.Pooling(
        pooling.input_size, pooling.output_size, pooling.kernel_size, pooling.stride, pooling.padding
    )


def apply(argmax: np.ndarray, encoding: MaskEncoding) -> bytes | None:
    """Returns the bytes that a device reads instead of the argmax, or None for the argmax itself."""
    batch, channels = argmax.shape[:2]
    check = aclgrad_native.ArgmaxCheck(native(POOLING), argmax.itemsize, batch, channels, encoding)
    return check.apply(memoryview(argmax.tobytes()))


@pytest.fixture
def argmax() -> np.ndarray:
    values = np.random.default_rng(3).standard_normal((2, 19, *POOLING.input_size))
    return argmax_of_input(values, POOLING)[1]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("place", [0, 4095, 4096, 9999])
def test_one_index_out_of_bound_is_told_with_its_place(dtype: type, place: int) -> None:
    indices = np.full(10000, 6, dtype)
    check, limits = IndexCheck(7, indices.itemsize), np.iinfo(dtype)
    for count in (0, place, place + 1, len(indices)):
        assert check.apply(indices[:count].tobytes()) is None
    for value in (7, -1, limits.max, limits.min):
        indices[place] = value
        with pytest.raises(InvalidValueError, match=rf"has {value} at position {place}, outside \[0, 7\)"):
            # Bytes may start anywhere.
            check.apply(memoryview(b"x" + indices.tobytes())[1:])


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("ignored", [-100, 3, 255, 2**40])
def test_an_index_may_also_be_the_one_that_is_ignored(dtype: type, ignored: int) -> None:
    limits = np.iinfo(dtype)
    is_held = limits.min <= ignored <= limits.max
    indices = np.full(10000, 6, dtype)
    indices[::3] = ignored if is_held else 0
    check = IndexCheck(7, indices.itemsize, ignored)
    assert check.apply(indices.tobytes()) is None
    for value in {7, limits.max, limits.min} - {0, ignored}:
        indices[4100] = value
        with pytest.raises(InvalidValueError, match=rf"has {value} at position 4100, outside \[0, 7\)"):
            check.apply(memoryview(b"x" + indices.tobytes())[1:])
    assert (
        IndexCheck(0, indices.itemsize, ignored).apply(
            np.full(9, ignored if is_held else 0, dtype)[: 9 * is_held].tobytes()
        )
        is None
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_both_encodings_are_those_of_the_definition(argmax: np.ndarray, dtype: type) -> None:
    cast = argmax.astype(dtype)
    assert apply(cast, MaskEncoding.NONE) is None
    prefix = mask_of_argmax(argmax, POOLING, MaskLayout.INT32_PREFIX).tobytes()
    bits = mask_of_argmax(argmax, POOLING, MaskLayout.UINT16_BITS).tobytes()
    assert apply(cast, MaskEncoding.INT32) == prefix[: 4 * argmax.size]
    encoded = apply(cast, MaskEncoding.BITS)
    assert encoded is not None
    assert encoded == bits[: len(encoded)]
    assert not any(bits[len(encoded) :])


GEOMETRIES = {
    "cells": ((4, 5), (1, 1), (2, 1), (0, 0)),
    "disjoint": ((5, 6), (2, 2), (2, 2), (0, 0)),
    "overlapping": ((5, 6), (3, 3), (2, 1), (1, 1)),
    "four rows": ((6, 4), (4, 2), (1, 2), (2, 1)),
    "many rows": ((8, 3), (6, 2), (1, 1), (3, 0)),
    "dilated": ((4, 5), (2, 2), (1, 1), (1, 1), (2, 3)),
}
BEYOND = [-1, 2**31 - 1]
"""Positions outside of every plane, as are 2**32 and what follows in 64 bits, and the first after the last cell."""


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_of_all_positions_those_in_the_window_pass(geometry: tuple[tuple[int, int], ...], dtype: type) -> None:
    size, kernel, stride, padding, *rest = geometry
    dilation = rest[0] if rest else (1, 1)
    reach = [step * (count - 1) + 1 for step, count in zip(dilation, kernel, strict=True)]
    pooled = [(s + 2 * p - r) // t + 1 for s, p, r, t in zip(size, padding, reach, stride, strict=True)]
    pooling = aclgrad_native.Pooling(size, (pooled[0], pooled[1]), kernel, stride, padding, dilation)
    inside = np.zeros((*pooled, *size), bool)
    for row, column, y, x in np.ndindex(*pooled, *kernel):
        cell = np.array((row, column)) * stride - padding + np.array((y, x)) * dilation
        if (cell >= 0).all() and (cell < size).all():
            inside[row, column, *cell] = True
    inside = inside.reshape(pooled[0] * pooled[1], -1)
    legal = np.broadcast_to(inside.argmax(1), (2, len(inside))).astype(dtype)
    encodings = (MaskEncoding.NONE, MaskEncoding.INT32, MaskEncoding.BITS)
    plain, *others = (
        aclgrad_native.ArgmaxCheck(pooling, legal.itemsize, 1, 2, encoding)
        for encoding in (encodings if max(dilation) == 1 else encodings[:1])
    )
    outside = [*BEYOND, inside.shape[1], *([2**32, 2**63 - 1] if dtype is np.int64 else [])]
    for window, position in itertools.product(range(len(inside)), [*range(inside.shape[1]), *outside]):
        given = legal.copy()
        given[1, window] = position
        if position not in outside and inside[window, position]:
            assert plain.apply(given.tobytes()) is None
            continue
        for check in (plain, *others):
            with pytest.raises(InvalidValueError, match=f"has {position} at position {len(inside) + window},"):
                check.apply(given.tobytes())


def test_a_row_of_many_windows() -> None:
    pooling = Pooling((1, 3000), (1, 2), (1, 1), (0, 0))
    argmax = np.arange(2999, dtype=np.int32)
    check = aclgrad_native.ArgmaxCheck(native(pooling), 4, 1, 1, MaskEncoding.NONE)
    assert check.apply(argmax.tobytes()) is None
    argmax[2500] += 2
    with pytest.raises(InvalidValueError, match="has 2502 at position 2500,"):
        check.apply(argmax.tobytes())


@pytest.mark.parametrize(
    ("input_size", "stride", "row", "distance"),
    [
        pytest.param((1, 2**31 - 1), 1, 0, 2, id="above the only row"),
        pytest.param((1, (2**32 - 4) // 3), 2, 1, -4, id="below the only row"),
        pytest.param((2, 2**30 - 1), 3, 1, -4, id="below the second row"),
    ],
)
def test_windows_that_reach_beyond_a_plane_of_very_long_rows(
    input_size: tuple[int, int], stride: int, row: int, distance: int
) -> None:
    """Some rows beyond it, the numbers of the cells are those of the plane, plus the distance, in 32 bits."""
    width = input_size[1]
    pooling = Pooling(input_size, (4, 2), (stride, width // 2), (2, 0), ceil_mode=True)
    check = aclgrad_native.ArgmaxCheck(native(pooling), 4, 1, 1, MaskEncoding.NONE)
    rows, columns = np.indices(pooling.output_size)
    argmax = (np.maximum(rows * stride - 2, 0) * width + columns * (width // 2)).astype(np.int32)
    assert check.apply(argmax.tobytes()) is None
    argmax[row, 1] = width // 2 + distance
    place = np.ravel_multi_index((row, 1), argmax.shape)
    with pytest.raises(InvalidValueError, match=f"has {width // 2 + distance} at position {place},"):
        check.apply(argmax.tobytes())


@pytest.mark.parametrize("encoding", [MaskEncoding.NONE, MaskEncoding.INT32, MaskEncoding.BITS])
@pytest.mark.parametrize("kept", [slice(0, -1), slice(0, 0)], ids=["by a byte", "by all"])
def test_an_argmax_shorter_than_its_shape_is_refused(argmax: np.ndarray, encoding: MaskEncoding, kept: slice) -> None:
    check = aclgrad_native.ArgmaxCheck(native(POOLING), 4, *argmax.shape[:2], encoding)
    with pytest.raises(ValueError, match="fewer than its shape takes"):
        check.apply(argmax.astype(np.int32).tobytes()[kept])


def roi_align(sampling_ratio: int, aligned: bool = True, scale: float = 1.0) -> aclgrad_native.RoiAlign:
    return aclgrad_native.RoiAlign(3, 100, 100, 2, 5, scale, sampling_ratio, aligned)


def boxes(*rows: tuple[float, ...]) -> bytes:
    return np.array(rows, np.float32).tobytes()


@pytest.mark.parametrize(
    ("rows", "options", "samples"),
    [
        pytest.param([(0, 0, 0, 10, 10)], {"sampling_ratio": 2}, 2 * 5 * 2 * 2, id="fixed"),
        pytest.param([(0, 0, 0, 11, 7)], {"sampling_ratio": 0}, 2 * 5 * 4 * 3, id="ceil of 7/2 and 11/5"),
        pytest.param([(0, 5, 5, 5, 5)], {"sampling_ratio": 0, "aligned": False}, 2 * 5, id="at least one cell"),
        pytest.param([(0, 0, 0, 20, 20)], {"sampling_ratio": 0, "scale": 0.5}, 2 * 5 * 5 * 2, id="scaled"),
        pytest.param([(0, 0, 0, 1, 1)], {"sampling_ratio": 2**40}, 10 * 2.0**80, id="beyond 64 bits"),
    ],
)
def test_work_is_no_less_than_the_samples(rows: list[tuple[float, ...]], options: dict, samples: float) -> None:
    work = roi_align(**options).count_work(boxes(*rows))
    assert 3 * samples <= work <= 3 * samples + 3 * (100 + 2) * 100 + 8 * (samples + 100)


def test_boxes_without_samples_are_no_work() -> None:
    """No boxes, one without an extent, and reversed ones, also along one axis alone."""
    for rows in ([], [(0, 5, 5, 5, 5)], [(0, 9, 9, 1, 1)], [(0, 0, 10, 2**21, 0)]):
        assert roi_align(0).count_work(boxes(*rows)) == 0


def test_cells_that_are_only_passed_over_are_work() -> None:
    """Two samples at both ends of a row of four million cells: a separable kernel passes over all of them."""
    wide = aclgrad_native.RoiAlign(1, 1, 2**22, 1, 2, 1.0, 1, True)
    assert wide.count_work(boxes((0, 0, 0, 2**22, 1))) >= 2**22


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_box_that_is_not_finite_is_refused(value: float) -> None:
    """In any of its columns, before and after scaling."""
    for column in range(5):
        rows = np.array([(0, 1, 1, 4, 4)] * 3, np.float32)
        rows[1, column] = value
        with pytest.raises(InvalidValueError, match="box at row 1"):
            roi_align(2).count_work(rows.tobytes())
    with pytest.raises(InvalidValueError, match="after scaling"):
        roi_align(2, scale=1e30).count_work(boxes((0, 1, 1, 1e30, 1)))


def test_boxes_that_a_device_writes_nothing_for_are_refused() -> None:
    """They need an image, and an extent if samples follow it; in both dtypes."""

    def check(sampling_ratio: int, aligned: bool, *row: float) -> None:
        pooling = aclgrad_native.RoiAlign(3, 100, 100, 2, 5, 1.0, sampling_ratio, aligned, 2)
        for dtype in (np.float32, np.float16):
            rows = np.array([(1, 1, 1, 4, 4), row], dtype)
            assert aclgrad_native.BoxCheck(pooling, 1e9, rows.itemsize).apply(rows.tobytes()) is None

    for image in (-1, -0.25, 2, 7):
        with pytest.raises(InvalidValueError, match="box at row 1 of no image: there are 2"):
            check(2, True, image, 1, 1, 4, 4)
    for corners in ((1, 1, 4, 1), (1, 1, 1, 4), (4, 1, 1, 4)):
        with pytest.raises(InvalidValueError, match="box at row 1 without an extent"):
            check(0, True, 0, *corners)
        check(2, True, 0, *corners)
        check(0, False, 0, *corners)
    check(0, True, 1.75, -4, -4, 300.5, 1e-7)


@pytest.mark.parametrize("number", [0.0, 1.0, -2.5, 6e-8, 6.1e-5, 1234.5, 65504.0])
def test_float16_boxes_are_the_same_work(number: float) -> None:
    rows = np.array([(0, 1, 1, abs(number), 4), (0, number, number, 70, 9)], np.float16)
    pooling, most = roi_align(0), 1e9
    work = pooling.count_work(rows.astype(np.float32).tobytes())
    for limit in (work, np.nextafter(work, 0)):
        checked = aclgrad_native.BoxCheck(pooling, limit, 2)
        if limit == work:
            assert checked.apply(rows.tobytes()) is None
        else:
            with pytest.raises(Exception, match="work"):
                checked.apply(rows.tobytes())
    rows[0, 0] = np.inf
    with pytest.raises(InvalidValueError, match="not finite"):
        aclgrad_native.BoxCheck(pooling, most, 2).apply(rows.tobytes())
