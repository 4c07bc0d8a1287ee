"""aclnnRoiAlignV2Backward against its definition."""

import numpy as np
import pytest

from aclgrad import reference
from tools.abi.acl import AclError, Format, Library

from . import roi_align
from .roi_align import Roi
from .values import assert_close, random

NAME = "aclnnRoiAlignV2Backward"
AICORE_TIMEOUT = 507014
NAN, INF = float("nan"), float("inf")

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


def check(acl: Library, roi: Roi, boxes: np.ndarray) -> None:
    grad = random((len(boxes), roi.input_shape[1], *roi.pooled), np.float32)
    assert_close(gradient(acl, roi, grad, boxes), *roi_align.gradient(roi, grad, boxes))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling_ratio", [0, 3])
def test_values(acl: Library, sampling_ratio: int, aligned: bool) -> None:
    for boxes in BOXES.values():
        check(acl, Roi((2, 3, 9, 12), (3, 2), 0.5, sampling_ratio, aligned), np.array(boxes, np.float32))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling_ratio", [0, 2])
def test_the_two_definitions_agree(sampling_ratio: int, aligned: bool) -> None:
    for boxes in BOXES.values():
        roi, given = Roi((2, 3, 9, 12), (3, 2), 0.5, sampling_ratio, aligned), np.array(boxes, np.float32)
        grad = random((len(boxes), 3, 3, 2), np.float32)
        ours, _ = roi_align.gradient(roi, grad, given)
        theirs = reference.roi_align_v2_backward(
            grad, given, roi.input_shape, *roi.pooled, roi.spatial_scale, sampling_ratio, aligned
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


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
    grad = random((len(boxes), 2, 3, 2), np.float32)
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
