"""The rows of the operator table that are upsampling of planes.

What devices make of scales, and which are legal, is said at the gradients: a scale is refused unless it is that of the
sizes. The 950 has a faster kernel for 0, the absent scale, than for -1.
"""

from collections.abc import Callable, Iterator
from typing import Final

from aclgrad.errors import Violation
from aclgrad.operators.families.elementwise.spec import floats
from aclgrad.operators.spec import (
    Arguments,
    AttributeKind,
    AttributeSpec,
    InputSpec,
    OperatorKind,
    OperatorSpec,
    OutputSpec,
    Tolerance,
)
from aclgrad.operators.tolerance import Rule, by_dtype
from aclgrad.operators.upsample_bilinear2d_backward_v2.spec import TOLERANCES, placed
from aclgrad.operators.upsample_bilinear2d_backward_v2.spec import check_scales as check_bilinear_scales
from aclgrad.operators.upsample_nearest2d_backward.spec import check_scales as check_nearest_scales
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


SPECS: Final = (
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
