"""aclnnRoiAlignV2Backward against its definition, also at the edges of its blocks, groups and batches."""

import numpy as np
import pytest

from tools.abi.acl import AclError, Format, Library

from . import roi_align
from .roi_align import Roi

NAME = "aclnnRoiAlignV2Backward"
AICORE_TIMEOUT = 507014
NAN, INF = float("nan"), float("inf")
BOXES_IN_A_BATCH = 284
"""Of 8x8 bins with 2x2 samples: no more than about a mebibyte of weights is kept at a time."""

# One list of boxes for an input of two images of 9x12 cells, seen at half their size: image id, x1, y1, x2, y2.
BOXES = {
    "inside": [(0, 2, 4, 12, 16), (1, 0, 0, 24, 18), (1, 3.3, 1.7, 9.1, 17.9)],
    "overlapping": [(0, 2, 4, 12, 16), (0, 3, 4, 13, 16), (0, 2, 4, 12, 16)],
    "partly outside": [(0, -10, -4, 12, 16), (1, 20, 10, 40, 30), (1, -50, -50, 50, 50)],
    "outside": [(0, -100, -100, -50, -50), (1, 60, 60, 90, 90), (0, 0, 60, 10, 90)],
    "of no size": [(0, 6, 6, 6, 6), (1, 3, 4, 3, 10), (1, 3, 4, 10, 4), (0, -2, -2, -2, -2), (0, 24, 18, 24, 18)],
    "tiny": [(0, 6, 6, 6.01, 6.01), (1, 1e-30, 0, 2e-30, 1)],
    "reversed": [(0, 12, 16, 2, 4), (1, 3, 10, 9, 2), (1, 9, 2, 3, 10)],
    "on the limits": [(0, -2, -2, 24, 18), (0, -4, -4, 0, 0), (1, 24, 18, 26, 20), (1, -1, -1, -1, -1)],
    "of fractional images": [(0.9, 2, 4, 12, 16), (1.99, 2, 4, 12, 16), (-0.0, 2, 4, 12, 16)],
    "of other images": [(-1, 2, 4, 12, 16), (-0.5, 2, 4, 12, 16), (2, 2, 4, 9, 9), (1e9, 2, 4, 9, 9), (1, 2, 4, 8, 8)],
    "large": [(0, -300, -200, 400, 300), (1, 0, 0, 24, 700)],
}  # fmt: skip
SKIPPED = [
    (NAN, 2, 4, 12, 16), (INF, 2, 4, 12, 16), (-INF, 2, 4, 12, 16), (0, NAN, 4, 12, 16), (0, 2, NAN, 12, 16),
    (0, 2, 4, NAN, 16), (0, 2, 4, 12, NAN), (0, -INF, 4, 12, 16), (0, 2, 4, INF, 16), (0, 2, -INF, 12, INF),
    (0, -3e38, 4, 3e38, 16), (0, 2, -3e38, 12, 3e38), (0, 0, 0, 1e30, 10), (0, 0, 0, 10, 1e30),
]  # fmt: skip


def gradient(acl: Library, roi: Roi, grad: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    with (
        acl.tensor(grad) as grad_output,
        acl.tensor(boxes, format_=Format.ND) as rois,
        acl.int_array(roi.input_shape) as input_shape,
        acl.tensor(np.full(roi.input_shape, np.nan, np.float32)) as out,
    ):
        acl.run(
            NAME, grad_output.handle, rois.handle, input_shape, *roi.pooled, roi.spatial_scale, roi.sampling_ratio,
            roi.aligned, out.handle,
        )  # fmt: skip
        return out.read_storage()


def assert_close(result: np.ndarray, expected: np.ndarray, scale: np.ndarray) -> None:
    """scale: the definition with absolute values, by which rounding errors are measured."""
    error = abs(result.astype(np.float64) - expected)
    assert (error <= 2.0**-20 * scale + 1e-38).all(), (error - 2.0**-20 * scale).max()


def random_grad(roi: Roi, boxes: np.ndarray) -> np.ndarray:
    shape = (len(boxes), roi.input_shape[1], *roi.pooled)
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def check(acl: Library, roi: Roi, boxes: np.ndarray) -> np.ndarray:
    grad = random_grad(roi, boxes)
    result = gradient(acl, roi, grad, boxes)
    assert_close(result, *roi_align.gradient(roi, grad, boxes))
    return result


def random_boxes(count: int, roi: Roi, reach: float = 0.3) -> np.ndarray:
    """Boxes with corners on the input and up to `reach` of its size beside it, of images in turn."""
    generator = np.random.default_rng(count)
    images, _, height, width = roi.input_shape
    corners = np.sort(generator.uniform(-reach, 1 + reach, (count, 2, 2)), 1) * (width, height) / roi.spatial_scale
    return np.column_stack([np.arange(count) % images, corners.reshape(count, 4)]).astype(np.float32)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling_ratio", [0, 3])
def test_values(acl: Library, sampling_ratio: int, aligned: bool) -> None:
    for boxes in BOXES.values():
        check(acl, Roi((2, 3, 9, 12), (3, 2), 0.5, sampling_ratio, aligned), np.array(boxes, np.float32))


SHAPES = [
    *(((2, channels, 17, 33), (2, 3), 2) for channels in (1, 15, 16, 17, 33)),
    *(((2, 17, *plane), (2, 3), 2) for plane in ((1, 15), (5, 16), (16, 1))),
    # Bins are read 16 at a time; a block of 16 rows needs only some bins of a box.
    *(((1, 4, 40, 500), pooled, 2) for pooled in ((3, 5), (4, 4), (1, 17), (17, 1), (3, 11), (8, 10))),
    ((1, 16, 30, 500), (7, 7), 2),  # a block of 16 rows
    ((1, 17, 33, 300), (2, 2), 0),  # of 27 rows or fewer
    ((1, 16, 3, 8192), (7, 7), 2),  # of one row
    ((1, 5, 3, 8193), (2, 2), 0),  # of fewer channels, because one row would be too wide
    ((1, 3, 2, 32768), (7, 7), 2),
    ((1, 3, 2, 32769), (7, 7), 2),  # of one channel
    ((1, 1, 300, 700), (2, 2), 0),
    ((3, 1, 200, 4), (7, 7), 2),
    ((1, 2, 1, 60_000), (1, 1), 0),  # one bin with the weights of many cells
    ((1, 2, 60_000, 1), (3, 1), 0),
    ((1, 1, 2, 9), (1, 15_000), 2),  # many bins
    ((2, 5, 9, 2), (15_000, 1), 2),
    ((1, 1, 2, 140_000), (2, 5), 0),  # a row of several blocks
]
"""The shape of the input, the bins, and the samples."""


@pytest.mark.parametrize(("shape", "pooled", "sampling_ratio"), SHAPES, ids=str)
def test_blocks(acl: Library, shape: tuple[int, int, int, int], pooled: tuple[int, int], sampling_ratio: int) -> None:
    roi = Roi(shape, pooled, 0.5, sampling_ratio, True)
    boxes = random_boxes(4 if max(*shape, *pooled) > 10_000 else 7, roi)
    boxes[1, 1:] = boxes[1, [3, 4, 1, 2]]  # reversed
    boxes[3, 1:] /= 100  # a small one between large ones
    check(acl, roi, boxes)


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("count", [BOXES_IN_A_BATCH, BOXES_IN_A_BATCH + 1, 2 * BOXES_IN_A_BATCH + 1])
def test_batches(acl: Library, count: int, images: int) -> None:
    roi = Roi((images, 2, 21, 19), (8, 8), 1.0, 2)
    check(acl, roi, random_boxes(count, roi, reach=0.0))


def test_images_without_boxes_beside_batches(acl: Library) -> None:
    roi = Roi((7, 2, 13, 19), (8, 8), 1.0, 2)
    boxes = random_boxes(BOXES_IN_A_BATCH + 5, roi, reach=0.0)
    for images in ((1, 1, 1, 1, 4), (6,), (0, 5), (-1, 2, 7)):
        boxes[:, 0] = np.resize(images, len(boxes))
        result = check(acl, roi, boxes)
        assert {image for image in range(7) if result[image].any()} == set(images) & set(range(7))


def test_rows_that_no_box_touches_are_zero(acl: Library) -> None:
    boxes = np.array([(0, 3, row, 9, row + 1.5) for row in (2, 40, 41, 90)], np.float32)
    result = check(acl, Roi((2, 18, 100, 20), (2, 2), 1.0, 2), boxes)
    touched = np.flatnonzero(result.any(axis=(0, 1, 3)))
    assert set(touched) == {2, 3, 4, 40, 41, 42, 43, 90, 91, 92}
    assert (result[1] == 0).all()


def test_a_last_bit_decides_about_the_samples(acl: Library) -> None:
    # Scaled and divided in float32, some of these sizes are just above a whole number of cells and some just below.
    sizes = np.arange(1, 60, dtype=np.float32) * np.float32(0.7)
    boxes = np.zeros((len(sizes), 5), np.float32)
    boxes[:, 3] = boxes[:, 4] = sizes
    for scale in (1 / 0.7, 0.1, 1 / 3):
        check(acl, Roi((1, 1, 9, 9), (1, 1), scale, 0, True), boxes)


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_boxes_that_mean_nothing_are_skipped(acl: Library, aligned: bool, sampling_ratio: int) -> None:
    roi = Roi((1, 2, 9, 12), (3, 2), 2.0, sampling_ratio, aligned)
    boxes = np.array([*SKIPPED, (0, 1, 1, 5, 4)], np.float32)
    if sampling_ratio:
        boxes = boxes[[*range(12), -1]]  # 1e30 is a legal size then: its samples just lie elsewhere
    grad = random_grad(roi, boxes)
    expected = roi_align.gradient(roi, grad[-1:], boxes[-1:])
    assert_close(gradient(acl, roi, grad, boxes), *expected)


def test_a_huge_box_costs_only_what_lies_on_the_input(acl: Library) -> None:
    boxes = np.array([(0, -1e9, -1e9, 1e9, 1e9)] * 100, np.float32)
    result = gradient(acl, Roi((1, 1, 8, 8), (1, 1)), np.ones((100, 1, 1, 1), np.float32), boxes)
    assert np.isfinite(result).all()


@pytest.mark.needs("bad values")
def test_too_many_samples_end_in_a_timeout(acl: Library) -> None:
    roi = Roi((1, 1, 8, 8), (1, 1), 1.0, 2**31 - 1)
    with pytest.raises(AclError) as failure:
        gradient(acl, roi, np.ones((1, 1, 1, 1), np.float32), np.array([(0, 0, 0, 8, 8)], np.float32))
    assert failure.value.code == AICORE_TIMEOUT
    assert "samples" in failure.value.message


def test_non_finite_gradients_touch_only_what_was_sampled(acl: Library) -> None:
    grad = np.array([[[[INF, 1]]], [[[NAN, 0]]]], np.float32)
    boxes = np.array([(0, 1, 1, 5, 2), (0, 1, 4, 5, 5)], np.float32)
    result = gradient(acl, Roi((1, 1, 7, 7), (1, 2), 1.0, 2), grad, boxes)[0, 0]
    assert np.isinf(result[1:3, 1:3]).all()
    assert np.isnan(result[4:6, 1:3]).all()
    assert (result[[0, 3, 6]] == 0).all()
    assert np.isfinite(result[:, 4:]).all()
