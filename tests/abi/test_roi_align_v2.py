"""aclnnRoiAlignV2 against its definition: every kind of box, sizes at the edges of its parts, and special values."""

import numpy as np
import pytest

from tools.abi.acl import AclError, Format, Library

from .roi_align import Roi, matrix
from .test_roi_align_v2_backward import AICORE_TIMEOUT, BOXES, SKIPPED, random_boxes

NAME = "aclnnRoiAlignV2"
NAN, INF = float("nan"), float("inf")


def pooled(acl: Library, roi: Roi, images: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    shape = (len(boxes), images.shape[1], *roi.pooled)
    with (
        acl.tensor(images) as self,
        acl.tensor(boxes, format_=Format.ND) as rois,
        acl.tensor(np.full(shape, np.nan, images.dtype)) as out,
    ):
        acl.run(
            NAME, self.handle, rois.handle, *roi.pooled, roi.spatial_scale, roi.sampling_ratio, roi.aligned, out.handle
        )
        return out.read_storage()


def defined(roi: Roi, images: np.ndarray, boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the means for finite boxes, and the same with absolute values: two matrix products a box."""
    result, scale = np.zeros((2, len(boxes), images.shape[1], *roi.pooled))
    wide = images.astype(np.float64)
    for index, (image, x1, y1, x2, y2) in enumerate(boxes.astype(np.float32)):
        if not 0 <= np.floor(image) < len(images):
            continue
        rows, row_samples = matrix(y1, y2, roi.pooled[0], images.shape[2], roi)
        columns, column_samples = matrix(x1, x2, roi.pooled[1], images.shape[3], roi)
        plane = wide[int(np.floor(image))]
        for to, cells in ((result, plane), (scale, abs(plane))):
            to[index] = rows.T @ cells @ columns / max(row_samples * column_samples, 1)
    return result, scale


def check(acl: Library, roi: Roi, boxes: np.ndarray, dtype: str = "float32") -> np.ndarray:
    images = np.random.default_rng(0).standard_normal(roi.input_shape).astype(dtype)
    boxes = boxes.astype(dtype)
    found = pooled(acl, roi, images, boxes)
    truth, scale = defined(roi, images, boxes)
    rounding = 2.0**-11 if dtype == "float16" else 0.0
    bound = 2.0**-20 * scale + rounding * abs(truth) + 1e-7 * (dtype == "float16") + 1e-38
    assert (abs(found.astype(np.float64) - truth) <= bound).all()
    return found


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("sampling_ratio", [0, 3])
def test_values(acl: Library, sampling_ratio: int, aligned: bool, dtype: str) -> None:
    for name, boxes in BOXES.items():
        if dtype == "float32" or name not in ("tiny", "of other images"):
            check(acl, Roi((2, 3, 9, 12), (3, 2), 0.5, sampling_ratio, aligned), np.array(boxes, np.float32), dtype)


@pytest.mark.parametrize(
    ("shape", "bins", "sampling_ratio"),
    [
        *(((2, 17, 5, width), (2, 3), 2) for width in (1, 7, 15, 33)),
        ((1, 4, 40, 500), (17, 1), 2),
        ((1, 3, 3, 2049), (2, 2), 0),  # more columns than are added up together
        ((1, 2, 1, 60_000), (1, 1), 0),  # one bin with the weights of many cells
        ((1, 2, 60_000, 1), (3, 1), 0),
        ((1, 1, 2, 9), (1, 15_000), 2),  # many bins
        ((2, 2, 9, 2), (15_000, 1), 2),
    ],
    ids=str,
)
def test_parts(acl: Library, shape: tuple[int, int, int, int], bins: tuple[int, int], sampling_ratio: int) -> None:
    """Boxes of few and many cells and bins, also those whose weights are in memory in parts."""
    roi = Roi(shape, bins, 0.5, sampling_ratio, True)
    boxes = random_boxes(4 if max(*shape, *bins) > 10_000 else 7, roi)
    boxes[1, 1:] = boxes[1, [3, 4, 1, 2]]  # reversed
    boxes[3, 1:] /= 100  # a small one between large ones
    check(acl, roi, boxes)


@pytest.mark.parametrize("plane", [(1, 20_000), (20_000, 1), (300, 400)], ids=str)
def test_long_means(acl: Library, plane: tuple[int, int]) -> None:
    """Of one sign, and too many for float32."""
    roi = Roi((1, 2, *plane), (1, 1), 1.0, 0, True)
    boxes = np.array([(0, 0, 0, plane[1], plane[0]), (0, 0, 0, plane[1] / 3, plane[0])], np.float32)
    images = np.random.default_rng(1).random(roi.input_shape, np.float32)
    found, (truth, _) = pooled(acl, roi, images, boxes), defined(roi, images, boxes)
    np.testing.assert_allclose(found, truth, rtol=2.0**-20)


def test_many_boxes(acl: Library) -> None:
    """More than have their weights in memory at a time, of images in any order."""
    roi = Roi((3, 2, 21, 19), (8, 8), 1.0, 2)
    check(acl, roi, random_boxes(2000, roi, reach=0.0))


@pytest.mark.parametrize("sampling_ratio", [0, 2])
@pytest.mark.parametrize("aligned", [False, True])
def test_boxes_that_mean_nothing_have_zeros(acl: Library, aligned: bool, sampling_ratio: int) -> None:
    roi = Roi((1, 2, 9, 12), (3, 2), 2.0, sampling_ratio, aligned)
    boxes = np.array(SKIPPED[: 12 if sampling_ratio else None], np.float32)
    found = pooled(acl, roi, np.ones(roi.input_shape, np.float32), boxes)
    assert not found.any()


@pytest.mark.needs("bad values")
def test_too_many_samples_end_in_a_timeout(acl: Library) -> None:
    roi = Roi((1, 1, 8, 8), (1, 1), 1.0, 2**31 - 1)
    with pytest.raises(AclError) as failure:
        pooled(acl, roi, np.ones((1, 1, 8, 8), np.float32), np.array([(0, 0, 0, 8, 8)], np.float32))
    assert failure.value.code == AICORE_TIMEOUT
    assert "samples" in failure.value.message


@pytest.mark.parametrize("value", [NAN, INF])
def test_cells_beside_the_samples_do_not_matter(acl: Library, value: float) -> None:
    images = np.full((1, 1, 9, 40), value, np.float32)
    images[..., 2:5, 10:15] = 1
    boxes = np.array([(0, 10.25, 2.25, 13.75, 3.75)], np.float32)
    found = pooled(acl, Roi((1, 1, 9, 40), (2, 3), 1.0, 2), images, boxes)
    np.testing.assert_allclose(found, 1, rtol=1e-6)
