"""aclnnRoiAlignV2Backward: the gradient of RoI align."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.rules import equal_sizes
from aclgrad.operators.spec import (
    Arguments,
    Arrays,
    AttributeKind,
    AttributeSpec,
    Case,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    case,
    same_on,
)
from aclgrad.operators.values import BoxRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from aclgrad.wire.messages import AttributeValue

_PRODUCTS = (Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_DTYPES = same_on(_PRODUCTS, ("float32",))
_BOX: Final = 5
_MAX_BINS: Final = 4096
"""Far beyond any model; a bound on what a device prepares for each bin."""
_FLOAT32: Final = np.finfo(np.float32)
_SMALLEST_SCALE: Final = float(np.nextafter(_FLOAT32.tiny, np.float32(1)))
"""The first float32 above FLT_MIN: CANN wants more than that."""


def _check(arguments: Arguments) -> Iterator[Violation]:
    grad_output, boxes = arguments.inputs["grad_output"].shape, arguments.inputs["boxes"].shape
    input_shape = arguments.ints("input_shape")
    count = boxes[0]
    yield from equal_sizes("inputs[boxes].shape", boxes, "one box (image, x1, y1, x2, y2) a row", (count, _BOX))
    pooled = (arguments.int("pooled_height"), arguments.int("pooled_width"))
    expected = (count, input_shape[1], *pooled)
    yield from equal_sizes("inputs[grad_output].shape", grad_output, "boxes, channels and pooled size", expected)


def _box_rule(arguments: Arguments, product: Product) -> BoxRule:
    attributes = arguments.attributes
    _, channels, height, width = arguments.ints("input_shape")
    return BoxRule(
        channels=channels,
        height=height,
        width=width,
        pooled_height=arguments.int("pooled_height"),
        pooled_width=arguments.int("pooled_width"),
        spatial_scale=float(attributes["spatial_scale"]),  # type: ignore[arg-type]
        sampling_ratio=arguments.int("sampling_ratio"),
        aligned=bool(attributes["aligned"]),
    )


def _grad_input(arguments: Arguments) -> TensorType:
    return TensorType(arguments.inputs["grad_output"].dtype, arguments.ints("input_shape"))


def _sample(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Boxes with corners in and around the image; the case's name may ask for special ones."""
    images, _, height, width = example.attributes["input_shape"]  # type: ignore[misc]
    scale = float(example.attributes.get("spatial_scale", 1.0))  # type: ignore[arg-type]
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
    boxes = np.column_stack([image, low / scale, (low + size) / scale])
    return {**arrays, "boxes": boxes.astype(np.float32)}


def _case(
    name: str, input_shape: tuple[int, int, int, int], count: int, pooled: tuple[int, int], **attributes: float
) -> Case:
    given: dict[str, AttributeValue] = {
        "input_shape": input_shape,
        "pooled_height": pooled[0],
        "pooled_width": pooled[1],
        **attributes,
    }
    return case(name, given, grad_output=(count, input_shape[1], *pooled), boxes=(count, _BOX))


SPEC = OperatorSpec(
    name="roi_align_v2_backward",
    symbol="aclnnRoiAlignV2Backward",
    summary="Spreads the gradient of every pooled bin over the cells that its samples were interpolated from.",
    formula=(
        "A bin averages sampling_ratio x sampling_ratio bilinear samples (with 0: ceil(bin size) per axis); each "
        "sample gives its share of the bin's gradient to its four neighbours by their weights. Samples beyond "
        "[-1, H] x [-1, W] and boxes of images that do not exist count for nothing (torchvision: ops.roi_align)."
    ),
    inputs=(
        InputSpec(
            "grad_output", "The gradient of the pooled boxes, shape (K, C, pooled_height, pooled_width).", _DTYPES, (4,)
        ),
        InputSpec(
            "boxes",
            "The boxes, shape (K, 5): image, x1, y1, x2, y2, before scaling.",
            _DTYPES,
            (2,),
            values=_box_rule,
        ),
    ),
    attributes=(
        AttributeSpec(
            "input_shape",
            "The shape (N, C, H, W) of the tensor that was pooled.",
            AttributeKind.INTS,
            (4,),
            minimum=0,
        ),
        AttributeSpec(
            "pooled_height", "Bins of a box along its height.", AttributeKind.INT, minimum=0, maximum=_MAX_BINS
        ),
        AttributeSpec(
            "pooled_width", "Bins of a box along its width.", AttributeKind.INT, minimum=0, maximum=_MAX_BINS
        ),
        AttributeSpec(
            "spatial_scale",
            "What box coordinates are multiplied by, as float32.",
            AttributeKind.DOUBLE,
            default=1.0,
            minimum=_SMALLEST_SCALE,
            maximum=float(_FLOAT32.max),
        ),
        AttributeSpec(
            "sampling_ratio",
            "Samples of a bin along each axis; 0 follows the size of the bin.",
            AttributeKind.INT,
            default=0,
            minimum=0,
        ),
        AttributeSpec(
            "aligned", "Shifts boxes by half a cell, so that cells are points.", AttributeKind.BOOL, default=False
        ),
    ),
    output=OutputSpec("grad_input", "The gradient of the pooled tensor, of input_shape.", _grad_input),
    check=_check,
    sample=_sample,
    tolerances={"float32": Tolerance(relative=1e-3, absolute=1e-4)},
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
