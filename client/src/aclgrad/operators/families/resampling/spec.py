"""The rows of the operator table that are upsampling of planes, and pooling of boxes.

What devices make of scales, and which are legal, is said at the gradients: a scale is refused unless it is that of the
sizes. The 950 has a faster kernel for 0, the absent scale, than for -1.

RoI align leaves the output of a box without an image or without samples as it was, so such boxes are refused; its
gradient skips them. Devices multiply by the reciprocal of the pooled size: an adaptive bin of a whole number of cells
may have one sample more than that. They multiply and add float16 as such.
"""

import math
from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.batch_axes import BatchAxes
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.roi_align_v2_backward.spec import ATTRIBUTES, BOX
from aclgrad.operators.rules import same_dtype
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
    same_on,
)
from aclgrad.operators.tolerance import Rule, by_dtype
from aclgrad.operators.upsample_bilinear2d_backward_v2.spec import TOLERANCES, placed
from aclgrad.operators.upsample_bilinear2d_backward_v2.spec import check_scales as check_bilinear_scales
from aclgrad.operators.upsample_nearest2d_backward.spec import check_scales as check_nearest_scales
from aclgrad.operators.values import BoxRule
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_DTYPES: Final = floats()
_LARGEST: Final = 2**31 - 1
_SCALE: Final = "The scale of {}: {}; 0 for the ratio of the sizes."
_SCALES: Final = (
    AttributeSpec("scales_h", _SCALE.format("rows", "oH / H"), AttributeKind.DOUBLE, default=0.0, minimum=0),
    AttributeSpec("scales_w", _SCALE.format("columns", "oW / W"), AttributeKind.DOUBLE, default=0.0, minimum=0),
)
_ALIGN_CORNERS: Final = AttributeSpec(
    "align_corners", "Whether the corners of both tensors lie on each other.", AttributeKind.BOOL, default=False
)


def _upsampled(arguments: Arguments) -> TensorType:
    type = arguments.inputs["self"]
    return TensorType(type.dtype, (*type.shape[:2], *arguments.ints("output_size")))


def _upsampling(
    name: str,
    symbol: str,
    formula: str,
    check: Callable[..., Iterator[Violation]],
    tolerance: Rule,
    work: float,
    *more: AttributeSpec,
) -> OperatorSpec:
    """Returns a row; `work` is what an upsampled cell takes."""

    def checked(arguments: Arguments, product: Product) -> Iterator[Violation]:
        shape = arguments.inputs["self"].shape
        if 0 in shape[2:]:
            yield Violation("inputs[self].shape", f"is {shape}", "send at least one row and one column")
        else:
            yield from check(arguments, arguments.ints("output_size"), shape[2:])

    return OperatorSpec(
        name=name,
        symbol=symbol,
        summary=f"Upsamples planes to a size: {formula.split(':')[0]}.",
        formula=formula.split(": ", 1)[1],
        inputs=(InputSpec("self", "The tensor, shape (N, C, H, W).", _DTYPES, (4,)),),
        attributes=(
            AttributeSpec(
                "output_size", "oH and oW, the upsampled size.", AttributeKind.INTS, (2,), minimum=1, maximum=_LARGEST
            ),
            *more,
            *_SCALES,
        ),
        outputs=(OutputSpec("out", "The upsampled tensor, shape (N, C, oH, oW).", _upsampled),),
        check=checked,
        tolerance=tolerance,
        kind=OperatorKind.VALUE,
        operations=lambda arguments: work * _upsampled(arguments).element_count,
    )


_ROI_DTYPES: Final = same_on(
    (Product.ATLAS_TRAINING, Product.ATLAS_INFERENCE, Product.ATLAS_A2, Product.ATLAS_A3), ("float32", "float16")
)


def _pooled(arguments: Arguments) -> TensorType:
    images, boxes = arguments.inputs["self"], arguments.inputs["boxes"]
    pooled = (arguments.int("pooled_height"), arguments.int("pooled_width"))
    return TensorType(images.dtype, (boxes.shape[0], images.shape[1], *pooled))


def _check_boxes(arguments: Arguments, product: Product) -> Iterator[Violation]:
    yield from same_dtype(arguments, "self", "boxes")
    shape, boxes = arguments.inputs["self"].shape, arguments.inputs["boxes"].shape
    if 0 in (shape[0], *shape[2:]):
        yield Violation("inputs[self].shape", f"is {shape}", "send at least one image of at least one cell")
    if boxes[1] != BOX:
        yield Violation(
            "inputs[boxes].shape", f"is {boxes}", f"send one box (image, x1, y1, x2, y2) a row: {BOX} sizes"
        )
    for name in ("pooled_height", "pooled_width"):
        if arguments.int(name) == 0:
            yield Violation(f"attributes[{name}]", "is 0", "send at least one bin")


def _box_rule(arguments: Arguments, product: Product) -> BoxRule:
    images, channels, height, width = arguments.inputs["self"].shape
    return BoxRule(
        channels=channels,
        height=height,
        width=width,
        pooled_height=arguments.int("pooled_height"),
        pooled_width=arguments.int("pooled_width"),
        spatial_scale=arguments.double("spatial_scale"),
        sampling_ratio=arguments.int("sampling_ratio"),
        aligned=bool(arguments.attributes["aligned"]),
        images=images,
    )


def _samples(arguments: Arguments) -> float:
    """Every sample takes four cells; without a ratio, the number of samples depends on the boxes."""
    ratio = arguments.int("sampling_ratio")
    return 8.0 * ratio * ratio * _pooled(arguments).element_count if ratio else math.inf


_ROI_ALIGN: Final = OperatorSpec(
    name="roi_align_v2",
    symbol="aclnnRoiAlignV2",
    summary="Pools boxes of images: each bin is the mean of samples between cells.",
    formula=(
        "A bin averages sampling_ratio x sampling_ratio bilinear samples (with 0: ceil(bin size) per axis). Samples "
        "beyond [-1, H] x [-1, W] are 0 (torchvision: ops.roi_align)."
    ),
    inputs=(
        InputSpec("self", "The images, shape (N, C, H, W).", _ROI_DTYPES, (4,)),
        InputSpec(
            "boxes",
            "The boxes, shape (K, 5): image, x1, y1, x2, y2, before scaling.",
            _ROI_DTYPES,
            (2,),
            values=_box_rule,
        ),
    ),
    attributes=ATTRIBUTES,
    outputs=(OutputSpec("out", "The pooled boxes, shape (K, C, pooled_height, pooled_width).", _pooled),),
    check=_check_boxes,
    tolerance=by_dtype(
        {"float32": Tolerance(relative=1e-3, absolute=1e-4), "float16": Tolerance(relative=2e-3, absolute=1e-2)}
    ),
    kind=OperatorKind.VALUE,
    operations=_samples,
    batch_axes=lambda _: BatchAxes(others={"self": None}, item="boxes"),
)

SPECS: Final = (
    _ROI_ALIGN,
    _upsampling(
        "upsample_nearest2d_v2",
        "aclnnUpsampleNearest2dV2",
        "each cell is copied: out[y, x] = self[min(floor(y * (H / oH)), H - 1), min(floor(x * (W / oW)), W - 1)], with "
        "the ratio and the product in float32 (PyTorch: aten::upsample_nearest2d).",
        check_nearest_scales,
        by_dtype(dict.fromkeys(TOLERANCES, Tolerance(0.0, 0.0))),
        1.0,
    ),
    _upsampling(
        "upsample_bilinear2d",
        "aclnnUpsampleBilinear2d",
        "each new cell is the mean of the four around its place, by its distances: along each axis of n cells and o "
        "outputs, output i lies at x = max((i + 0.5) * n / o - 0.5, 0), or with align_corners at i * (n - 1) / "
        "(o - 1), between the cells floor(x) and the next one, or the last twice (PyTorch: aten::upsample_bilinear2d).",
        check_bilinear_scales,
        placed(by_dtype(TOLERANCES), lambda _: 4.0, lambda arguments: arguments.inputs["self"].shape[2:]),
        8.0,
        _ALIGN_CORNERS,
    ),
)
