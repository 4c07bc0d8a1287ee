"""Calls of upsampling and of RoI align."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from aclgrad.operators.roi_align_v2_backward.samples import SAMPLES as ROI
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, both_ways, case, draw_sizes

NEAREST: Final = "upsample_nearest2d_v2"
BILINEAR: Final = "upsample_bilinear2d"


def upsampling_case(name: str, input: tuple[int, ...], output_size: tuple[int, ...], **attributes: Any) -> Case:
    return case(name, {"output_size": output_size, **attributes}, self=input)


def _draw(integer: Integer, operator: str) -> Case:
    input = (integer(0, 3), integer(1, 18), *draw_sizes(integer, 2, 1, 14))
    align = {"align_corners": bool(integer(0, 1))} if operator == BILINEAR else {}
    return upsampling_case("drawn", input, draw_sizes(integer, 2, 1, 30), **align)


def _timed(shape: tuple[int, ...]) -> Case:
    """The upsampled tensor has the size; it is twice as high and wide."""
    height, width = shape[2:]
    return upsampling_case("timed", (*shape[:2], height // 2, width // 2), (height, width))


def _long(cells: int) -> Iterator[Case]:
    sizes = (("doubled", cells // 2), ("uneven", cells * 2 // 5), ("of_one_cell", 1))
    for name, size in sizes:
        for way, place in both_ways(name):
            yield upsampling_case(way, (1, 1, *place(size, 1)), place(cells, 1))
    for way, place in both_ways("to_few_cells"):
        yield upsampling_case(way, (1, 1, *place(cells, 1)), place(7, 1))
    side = math.isqrt(cells)
    yield upsampling_case("plane", (1, 1, side * 2 // 5, side * 2 // 5), (side, side))


def _rows(length: int) -> Iterator[Case]:
    for columns in (length, max(length // 2, 1), 3):
        yield upsampling_case("rows", (2, 3, 2, columns), (3, length))


def upsampling_samples(operator: str, function: str) -> Samples:
    """Returns the samples of one of the operators, which is this function of PyTorch."""

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        align = [attributes["align_corners"]] if operator == BILINEAR else []
        scales = [attributes[name] or None for name in ("scales_h", "scales_w")]
        return getattr(torch.ops.aten, function)(tensors["self"], list(attributes["output_size"]), *align, *scales)

    aligned: dict[str, Any] = {"align_corners": True} if operator == BILINEAR else {}
    return Samples(
        draw=lambda integer: _draw(integer, operator),
        rows=_rows,
        timed={size: _timed(shape) for size, shape in PLANES.items()},
        pytorch=pytorch,
        long=_long,
        picture=upsampling_case("picture", (1, 1, 2, 3), (4, 5)),
        cases=(
            upsampling_case("doubled", (2, 3, 4, 5), (8, 10)),
            upsampling_case("uneven", (2, 3, 5, 7), (8, 11), **aligned),
            upsampling_case("smaller", (1, 2, 9, 8), (4, 3)),
            upsampling_case("to_one_cell", (1, 2, 5, 4), (1, 1), **aligned),
            upsampling_case("with_scales", (1, 2, 4, 5), (8, 15), scales_h=2.0, scales_w=3.0),
            upsampling_case("nothing", (0, 3, 4, 4), (8, 8)),
        ),
    )


_SPECIAL: Final = ("no_image", "zero_size", "reversed")
"""Boxes that only the gradient takes."""
_POOLED: Final = ("two_samples", "adaptive", "adaptive_not_aligned", "outside", "many_channels", "no_boxes")


def _pooling(gradient: Case, only: tuple[str, ...] = ()) -> Case:
    """Returns the call of which the other is the gradient, with ordinary boxes if its own are legal there alone."""
    attributes = dict(gradient.attributes)
    images: Any = attributes.pop("input_shape")
    is_special = any(each in gradient.name for each in _SPECIAL)
    return replace(
        gradient,
        name="drawn" if is_special else gradient.name,
        shapes={"self": tuple(images), "boxes": gradient.shapes["boxes"]},
        attributes=attributes,
        only=only,
        in_pytorch=True,
    )


def _roi_align(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """Needs torchvision's kernels to be loaded."""
    import torch

    names = ("spatial_scale", "pooled_height", "pooled_width", "sampling_ratio", "aligned")
    given = (attributes[name] for name in names)
    return torch.ops.torchvision.roi_align(tensors["self"], tensors["boxes"], *given)


def pooling_samples() -> Samples:
    """Returns the samples of `roi_align_v2`: calls of its gradient without the gradient."""
    assert ROI.picture is not None
    return replace(
        ROI,
        draw=lambda integer: _pooling(ROI.draw(integer)),
        rows=lambda length: tuple(map(_pooling, ROI.rows(length))),
        timed={size: _pooling(each) for size, each in ROI.timed.items()},
        pytorch=_roi_align,
        # float16 holds no place in a long row.
        long=lambda cells: (_pooling(each, ("float32",)) for each in ROI.long(cells)),
        picture=_pooling(ROI.picture),
        cases=tuple(_pooling(each) for each in ROI.cases if each.name in _POOLED),
    )


SAMPLES: Final[Mapping[str, Samples]] = {
    "roi_align_v2": pooling_samples(),
    BILINEAR: upsampling_samples(BILINEAR, "upsample_bilinear2d"),
    NEAREST: upsampling_samples(NEAREST, "upsample_nearest2d"),
}
