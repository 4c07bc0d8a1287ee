"""aclnnRoiAlignV2Backward at the edges of its division into blocks, groups of channels and batches of boxes."""

import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from tools.abi.acl import Library

from . import roi_align
from .programs_in_forks import call_of
from .roi_align import Roi
from .test_roi_align_v2_backward import gradient
from .values import assert_close, random

BOXES_IN_A_BATCH = 284
"""Of 8x8 bins with 2x2 samples: no more than about a mebibyte of weights is kept at a time."""


def check(acl: Library, roi: Roi, boxes: np.ndarray) -> np.ndarray:
    grad = random((len(boxes), roi.input_shape[1], *roi.pooled), np.float32)
    result = gradient(acl, roi, grad, boxes)
    assert_close(result, *roi_align.gradient(roi, grad, boxes))
    return result


def random_boxes(count: int, roi: Roi, reach: float = 0.3) -> np.ndarray:
    """Boxes with corners on the input and up to `reach` of its size beside it, of images in turn."""
    generator = np.random.default_rng(count)
    images, _, height, width = roi.input_shape
    corners = np.sort(generator.uniform(-reach, 1 + reach, (count, 2, 2)), 1) * (width, height) / roi.spatial_scale
    return np.column_stack([np.arange(count) % images, corners.reshape(count, 4)]).astype(np.float32)


@pytest.mark.parametrize("channels", [1, 15, 16, 17, 33])
def test_tails_of_channels_and_cells(acl: Library, channels: int) -> None:
    for height, width in ((1, 15), (5, 16), (16, 1), (17, 33)):
        roi = Roi((2, channels, height, width), (2, 3), 1.0, 2)
        check(acl, roi, random_boxes(6, roi))


@pytest.mark.parametrize(
    "shape",
    [
        (1, 16, 30, 500),  # a block of 16 rows
        (1, 17, 33, 300),  # of 27 rows or fewer
        (1, 16, 3, 8192),  # of one row
        (1, 5, 3, 8193),  # of fewer channels, because one row would be too wide
        (1, 3, 2, 32768),
        (1, 3, 2, 32769),  # of one channel
        (1, 1, 300, 700),
        (3, 1, 200, 4),
    ],
    ids=str,
)
def test_blocks(acl: Library, shape: tuple[int, int, int, int]) -> None:
    for pooled, ratio in (((7, 7), 2), ((2, 2), 0)):
        roi = Roi(shape, pooled, 0.5, ratio, True)
        check(acl, roi, random_boxes(10, roi))


@pytest.mark.parametrize("pooled", [(3, 5), (4, 4), (1, 17), (17, 1), (3, 11), (8, 10)], ids=str)
def test_bins_around_multiples_of_sixteen(acl: Library, pooled: tuple[int, int]) -> None:
    """Bins are read 16 at a time; a block of 16 rows needs only some bins of a box."""
    for channels in (1, 4, 18):
        roi = Roi((1, channels, 40, 500), pooled, 1.0, 2, True)
        check(acl, roi, random_boxes(7, roi))


def test_rows_that_no_box_touches_are_zero(acl: Library) -> None:
    boxes = np.array([(0, 3, row, 9, row + 1.5) for row in (2, 40, 41, 90)], np.float32)
    result = check(acl, Roi((2, 18, 100, 20), (2, 2), 1.0, 2), boxes)
    touched = np.flatnonzero(result.any(axis=(0, 1, 3)))
    assert set(touched) == {2, 3, 4, 40, 41, 42, 43, 90, 91, 92}
    assert (result[1] == 0).all()


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("count", [BOXES_IN_A_BATCH, BOXES_IN_A_BATCH + 1, 2 * BOXES_IN_A_BATCH + 1])
def test_batches(acl: Library, count: int, images: int) -> None:
    roi = Roi((images, 2, 21, 19), (8, 8), 1.0, 2)
    check(acl, roi, random_boxes(count, roi, reach=0.0))


@pytest.mark.parametrize(
    ("shape", "pooled", "sampling_ratio"),
    [
        ((1, 2, 1, 60_000), (1, 1), 0),  # one bin with the weights of many cells
        ((1, 2, 60_000, 1), (3, 1), 0),
        ((1, 1, 2, 9), (1, 15_000), 2),  # many bins
        ((2, 5, 9, 2), (15_000, 1), 2),
        ((1, 1, 2, 140_000), (2, 5), 0),  # a row of several blocks
    ],
    ids=str,
)
def test_boxes_with_more_weights_than_a_batch(
    acl: Library, shape: tuple[int, ...], pooled: tuple[int, int], sampling_ratio: int
) -> None:
    roi = Roi(shape, pooled, 1.0, sampling_ratio, True)
    boxes = random_boxes(5, roi)
    boxes[1, 1:] = boxes[1, [3, 4, 1, 2]]  # reversed
    boxes[3, 1:] /= 100  # a small one between large ones
    check(acl, roi, boxes)


def test_images_without_boxes_beside_batches(acl: Library) -> None:
    roi = Roi((7, 2, 13, 19), (8, 8), 1.0, 2)
    boxes = random_boxes(BOXES_IN_A_BATCH + 5, roi, reach=0.0)
    for images in ((1, 1, 1, 1, 4), (6,), (0, 5), (-1, 2, 7)):
        boxes[:, 0] = np.resize(images, len(boxes))
        result = check(acl, roi, boxes)
        assert {image for image in range(7) if result[image].any()} == set(images) & set(range(7))


@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_a_thousand_boxes(acl: Library, sampling_ratio: int) -> None:
    roi = Roi((4, 19, 37, 41), (5, 6), 0.25, sampling_ratio, True)
    boxes = random_boxes(1000, roi)
    generator = np.random.default_rng(5)
    boxes[:, 0] = generator.integers(-1, 5, 1000)
    boxes[::7, 1:] = boxes[::7, [3, 4, 1, 2]]  # reversed
    boxes[::11, 3:] = boxes[::11, 1:3]  # of no size
    check(acl, roi, boxes)


def print_digest(acl: Library) -> None:
    """Runs in a process of its own, because a process has one number of threads and one vector level."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    digest = hashlib.sha256()
    for channels in (1, 3, 21):
        roi = Roi((2, channels, 90, 61), (7, 7), 1.0, 0)
        boxes = random_boxes(200, roi)
        digest.update(gradient(acl, roi, random((200, channels, 7, 7), np.float32), boxes).tobytes())
    print(digest.hexdigest())


def test_threads_and_vector_levels_do_not_change_a_bit(run_program: Callable[..., list[str]]) -> None:
    digests = set()
    for settings in ({"threads": 1}, {"threads": 2}, {"threads": 3}, {"threads": 2, "vector_level": "baseline"}):
        digests.add(tuple(run_program(call_of(print_digest), settings)))
    assert len(digests) == 1
