"""aclnnRoiAlignV2Backward: the gradient of RoI align."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.rules import equal_sizes
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    same_on,
)
from aclgrad.operators.tolerance import by_dtype, summed
from aclgrad.operators.values import BoxRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_PRODUCTS = (Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950)
_DTYPES = same_on(_PRODUCTS, ("float32",))
BOX: Final = 5
_MAX_BINS: Final = 4096
"""Far more than any model has; limits the preparation of a device for each bin."""
_FLOAT32: Final = np.finfo(np.float32)
_SMALLEST_SCALE: Final = float(np.nextafter(_FLOAT32.tiny, np.float32(1)))
"""The first float32 above FLT_MIN, which CANN requires to be exceeded."""


def _check(arguments: Arguments, product: Product) -> Iterator[Violation]:
    grad_output, boxes = arguments.inputs["grad_output"].shape, arguments.inputs["boxes"].shape
    input_shape = arguments.ints("input_shape")
    count = boxes[0]
    yield from equal_sizes("inputs[boxes].shape", boxes, "one box (image, x1, y1, x2, y2) a row", (count, BOX))
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


def _operations(arguments: Arguments) -> float:
    """Every sample of a bin adds to four cells; without a ratio, the number of samples depends on the boxes."""
    ratio = arguments.int("sampling_ratio")
    if not ratio:
        return math.inf
    cells = math.prod(arguments.ints("input_shape"))
    return cells + 4.0 * ratio * ratio * arguments.inputs["grad_output"].element_count


def _grad_input(arguments: Arguments) -> TensorType:
    return TensorType(arguments.inputs["grad_output"].dtype, arguments.ints("input_shape"))


_IMAGES: Final = BatchAxes(
    counts=("input_shape",), numbers={"boxes": np.index_exp[:, 0]}, item="images with their boxes"
)

ATTRIBUTES: Final = (
    AttributeSpec("pooled_height", "Bins of a box along its height.", AttributeKind.INT, minimum=0, maximum=_MAX_BINS),
    AttributeSpec("pooled_width", "Bins of a box along its width.", AttributeKind.INT, minimum=0, maximum=_MAX_BINS),
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
)
"""What RoI align itself has, too."""

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
        *ATTRIBUTES,
    ),
    outputs=(OutputSpec("grad_input", "The gradient of the pooled tensor, of input_shape.", _grad_input),),
    check=_check,
    tolerance=summed(
        by_dtype({"float32": Tolerance(relative=1e-3, absolute=1e-4)}),
        lambda arguments: math.prod(arguments.inputs["grad_output"].shape[i] for i in (0, 2, 3)),
    ),
    operations=_operations,
    batch_axes=lambda _: _IMAGES,
)
