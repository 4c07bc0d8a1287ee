"""Calls of roi_align_v2_backward."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aclgrad.operators.roi_align_v2_backward.spec import BOX
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case, draw_sizes
from aclgrad.wire.values import AttributeValue


def box_values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Boxes with corners in and around the image; the case's name may ask for special ones."""
    attributes: Mapping[str, Any] = example.attributes
    images, _, height, width = attributes.get("input_shape", example.shapes.get("self", ()))
    scale = float(attributes.get("spatial_scale", 1.0))
    count = example.shapes["boxes"][0]
    low = generator.uniform(-0.2, 0.7, (count, 2)) * (width, height)
    size = generator.uniform(0.05, 0.6, (count, 2)) * (width, height)
    image = generator.integers(0, max(images, 1), count)
    if "outside" in example.name:
        low += np.where(generator.random((count, 1)) < 0.5, -2.0, 2.0) * (width, height)
    if "zero_size" in example.name:
        size[::2] = 0.0
    if "reversed" in example.name:
        size[::2] *= -1
    if "no_image" in example.name:
        image[::2] = np.resize([images, -1, images + 7], image[::2].shape)
    if "timed" in example.name:
        # As a detector proposes them, image by image.
        low = generator.uniform(0, 0.6, (count, 2)) * (width, height)
        size = np.minimum(generator.uniform(20, 120, (count, 2)), (width / 3, height / 3))
        image = np.arange(count) * images // count
    if "picture" in example.name:
        low, size = np.array([[1.0, 0.5]]), np.array([[4.0, 3.0]])
    boxes = np.column_stack([image, low / scale, (low + size) / scale])
    return {**arrays, "boxes": boxes.astype(arrays["boxes"].dtype)}


def _case(name: str, input_shape: tuple[int, ...], count: int, pooled: tuple[int, ...], **attributes: float) -> Case:
    given: dict[str, AttributeValue] = {
        "input_shape": input_shape,
        "pooled_height": pooled[0],
        "pooled_width": pooled[1],
        **attributes,
    }
    # torchvision indexes images without a check.
    in_pytorch = "no_image" not in name
    return case(name, given, in_pytorch=in_pytorch, grad_output=(count, input_shape[1], *pooled), boxes=(count, BOX))


def _draw(integer: Integer) -> Case:
    input_shape = (*draw_sizes(integer, 2, 1, 4), *draw_sizes(integer, 2, 1, 12))
    return _case(
        "drawn" + ("", "_outside", "_zero_size", "_reversed", "_no_image")[integer(0, 4)],
        input_shape,
        integer(0, 6),
        draw_sizes(integer, 2, 1, 5),
        spatial_scale=(1.0, 0.5, 0.3)[integer(0, 2)],
        sampling_ratio=integer(0, 4),
        aligned=bool(integer(0, 1)),
    )


def _rows(length: int) -> tuple[Case, ...]:
    """Vectors hold elements of a row, or channels."""
    return _case("rows", (2, 3, 5, length), 4, (2, 3)), _case("rows", (2, length, 5, 6), 4, (2, 3))


def _timed(input_shape: tuple[int, ...], count: int) -> Case:
    return _case("timed", input_shape, count, (7, 7), sampling_ratio=2, aligned=True)


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    yield _case("row", (1, 1, 1, cells), 3, (1, 1))
    yield _case("row_of_channels", (1, 4, 1, cells // 4), 3, (1, 7))
    yield _case("row_of_many_bins", (1, 1, 1, cells), 3, (1, cells // 3), sampling_ratio=2)
    yield _case("column", (1, 1, cells, 1), 3, (1, 1))
    yield _case("column_of_channels", (1, 4, cells // 4, 1), 3, (7, 1))
    yield _case("column_of_many_bins", (1, 1, cells, 1), 3, (cells // 3, 1), sampling_ratio=2)
    yield _case("plane", (1, 4, side // 2, side // 2), 30, (7, 7), sampling_ratio=2)
    yield _case("overlapping", (1, 1, 64, 64), cells // 64, (1, 1), sampling_ratio=1)
    yield _case("many_images", (cells // 4, 1, 2, 2), cells // 64, (1, 1), sampling_ratio=1)
    yield _case("images_of_one_cell", (cells, 1, 1, 1), 1, (1, 1), sampling_ratio=1)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """Needs torchvision's kernels to be loaded."""
    import torch

    return torch.ops.torchvision._roi_align_backward(
        tensors["grad_output"],
        tensors["boxes"],
        attributes["spatial_scale"],
        attributes["pooled_height"],
        attributes["pooled_width"],
        *attributes["input_shape"],
        attributes["sampling_ratio"],
        attributes["aligned"],
    )


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={
        "16 KB": _timed((1, 4, 32, 32), 4),
        "6 MB": _timed((1, 64, 160, 152), 64),
        "100 MB": _timed((2, 256, 200, 272), 512),
        "1 GB": _timed((20, 256, 200, 272), 5120),
    },
    pytorch=_pytorch,
    long=_long,
    values=box_values,
    picture=_case("picture", (1, 1, 5, 6), 1, (2, 2), sampling_ratio=2, aligned=True),
    cases=(
        _case("two_samples", (2, 3, 20, 24), 6, (7, 7), spatial_scale=0.25, sampling_ratio=2, aligned=True),
        _case("two_samples_not_aligned", (2, 3, 20, 24), 6, (7, 7), spatial_scale=0.25, sampling_ratio=2),
        _case("adaptive", (2, 3, 20, 24), 6, (5, 4), spatial_scale=0.5, aligned=True),
        _case("adaptive_not_aligned", (2, 3, 20, 24), 6, (5, 4), spatial_scale=0.5),
        _case("one_sample", (1, 2, 9, 9), 4, (3, 3), sampling_ratio=1, aligned=True),
        _case("five_samples", (1, 2, 9, 9), 4, (3, 2), sampling_ratio=5),
        _case("one_bin", (2, 4, 7, 8), 5, (1, 1), sampling_ratio=2, aligned=True),
        _case("outside", (2, 3, 8, 10), 9, (3, 3), sampling_ratio=2, aligned=True),
        _case("outside_adaptive", (2, 3, 8, 10), 9, (3, 3)),
        _case("zero_size", (1, 2, 8, 8), 5, (2, 3), aligned=True),
        _case("zero_size_not_aligned", (1, 2, 8, 8), 5, (2, 3)),
        _case("zero_size_two_samples", (1, 2, 8, 8), 5, (2, 3), sampling_ratio=2, aligned=True),
        _case("reversed", (1, 2, 8, 8), 5, (2, 2), aligned=True),
        _case("reversed_two_samples", (1, 2, 8, 8), 5, (2, 2), sampling_ratio=2, aligned=True),
        _case("no_image", (2, 3, 8, 8), 7, (2, 2), sampling_ratio=2),
        _case("one_cell", (1, 1, 1, 1), 3, (2, 2), sampling_ratio=2, aligned=True),
        _case("one_row", (1, 2, 1, 17), 3, (2, 3), sampling_ratio=2),
        _case("many_boxes", (3, 2, 12, 12), 64, (3, 3), sampling_ratio=2, aligned=True),
        _case("many_channels", (1, 37, 9, 11), 4, (3, 3), sampling_ratio=2, aligned=True),
        _case("half_scale", (1, 3, 16, 16), 5, (4, 4), spatial_scale=0.0625, sampling_ratio=2, aligned=True),
        _case("more_bins_than_cells", (1, 2, 4, 4), 4, (9, 8), sampling_ratio=1, aligned=True),
        _case("wide_bins", (2, 2, 5, 40), 6, (1, 9), aligned=True),
        _case("no_bins", (2, 3, 6, 6), 3, (0, 3), sampling_ratio=2),
        _case("no_boxes", (2, 3, 6, 6), 0, (3, 3), sampling_ratio=2),
        _case("no_channels", (2, 0, 6, 6), 3, (3, 3), sampling_ratio=2),
        _case("no_images", (0, 2, 6, 6), 3, (3, 3), sampling_ratio=2),
    ),
)
