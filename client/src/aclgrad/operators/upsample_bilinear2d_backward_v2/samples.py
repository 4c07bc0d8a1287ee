"""Calls of upsample_bilinear2d_backward_v2."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aclgrad.operators.samples import PLANES, Case, Integer, Samples, both_ways, case, draw_sizes
from aclgrad.wire.values import AttributeValue


def bilinear_case(
    name: str, input: tuple[int, ...], output_size: tuple[int, ...], align_corners: bool = False, *scales: float
) -> Case:
    attributes: dict[str, AttributeValue] = {
        "output_size": output_size,
        "input_size": input,
        "align_corners": align_corners,
    }
    given = dict(zip(("scales_h", "scales_w"), scales, strict=bool(scales)))
    return case(name, {**attributes, **given}, grad_output=(*input[:2], *output_size))


def _draw(integer: Integer) -> Case:
    leading = (integer(0, 3), integer(1, 18))
    sizes = draw_sizes(integer, 2, 1, 14), draw_sizes(integer, 2, 1, 30)
    if sizes[0] == sizes[1]:
        # Some products return nothing then.
        sizes = sizes[0], (sizes[1][0] + 1, sizes[1][1])
    return bilinear_case("drawn", (*leading, *sizes[0]), sizes[1], bool(integer(0, 1)))


def _timed(shape: tuple[int, ...]) -> Case:
    """The upsampled tensor has the size; it is twice as high and wide."""
    height, width = shape[2:]
    return bilinear_case("timed", (*shape[:2], height // 2, width // 2), (height, width))


def _long(cells: int) -> Iterator[Case]:
    for name, size, more in (
        ("doubled", cells // 2, cells),
        ("uneven", cells * 2 // 5, cells),
        ("of_one_cell", 1, cells),
        ("to_one_cell", cells, 1),
    ):
        for way, place in both_ways(name):
            yield bilinear_case(way, (1, 1, *place(size, 1)), place(more, 1))
    side = math.isqrt(cells)
    yield bilinear_case("plane", (1, 1, side // 2, side // 2), (side, side))
    yield bilinear_case("aligned", (1, 1, side * 2 // 5, side * 2 // 5), (side, side), True)
    yield bilinear_case("wide_uneven", (1, 1, 4, cells // 100), (16, cells // 16))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    sizes = [list(attributes[name]) for name in ("output_size", "input_size")]
    scales = [attributes[name] or None for name in ("scales_h", "scales_w")]
    gradient = torch.ops.aten.upsample_bilinear2d_backward
    return gradient(tensors["grad_output"], *sizes, attributes["align_corners"], *scales)


SAMPLES = Samples(
    draw=_draw,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=_long,
    picture=bilinear_case("picture", (1, 1, 2, 3), (4, 5)),
    cases=(
        bilinear_case("doubled", (2, 3, 4, 5), (8, 10)),
        bilinear_case("doubled_aligned", (2, 3, 4, 5), (8, 10), True),
        bilinear_case("one_more_row", (1, 2, 6, 5), (7, 5)),
        bilinear_case("tripled_columns", (1, 2, 3, 7), (3, 21)),
        bilinear_case("four_times", (1, 3, 5, 9), (20, 36)),
        bilinear_case("uneven", (2, 3, 5, 7), (8, 11)),
        bilinear_case("uneven_aligned", (2, 3, 5, 7), (8, 11), True),
        bilinear_case("five_times_and_uneven", (1, 2, 3, 4), (15, 9)),
        bilinear_case("smaller", (1, 2, 9, 8), (4, 3)),
        bilinear_case("smaller_aligned", (1, 2, 9, 8), (4, 3), True),
        bilinear_case("smaller_rows", (1, 2, 9, 3), (4, 12)),
        bilinear_case("from_one_cell", (2, 3, 1, 1), (5, 7)),
        bilinear_case("to_one_cell", (1, 2, 5, 4), (1, 1)),
        bilinear_case("to_one_cell_aligned", (1, 2, 5, 4), (1, 1), True),
        bilinear_case("many_planes", (6, 29, 2, 2), (4, 4)),
        bilinear_case("prime_sizes", (1, 13, 17, 19), (31, 47)),
        bilinear_case("with_scales", (1, 2, 4, 5), (8, 15), False, 2.0, 3.0),
        bilinear_case("with_one_scale", (1, 2, 4, 5), (8, 10), False, 0.0, 2.0),
        bilinear_case("empty_batch", (0, 3, 4, 4), (8, 8)),
    ),
)
