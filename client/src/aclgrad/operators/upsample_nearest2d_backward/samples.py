"""Calls of upsample_nearest2d_backward."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aclgrad.operators.samples import PLANES, Case, Integer, Samples, both_ways, case, draw_sizes


def _case(name: str, input: tuple[int, ...], output_size: tuple[int, ...], *scales: float) -> Case:
    attributes = {"output_size": output_size, "input_size": input}
    given = dict(zip(("scales_h", "scales_w"), scales, strict=bool(scales)))
    return case(name, {**attributes, **given}, grad_output=(*input[:2], *output_size))


def _draw(integer: Integer) -> Case:
    leading = (integer(0, 3), integer(1, 18))
    return _case("drawn", (*leading, *draw_sizes(integer, 2, 1, 14)), draw_sizes(integer, 2, 1, 30))


def _timed(shape: tuple[int, ...]) -> Case:
    """The upsampled tensor has the size; it is twice as high and wide."""
    height, width = shape[2:]
    return _case("timed", (*shape[:2], height // 2, width // 2), (height, width))


def _long(cells: int) -> Iterator[Case]:
    for name, size, more in (
        ("doubled", cells // 2, cells),
        ("same_size", cells, cells),
        ("uneven", cells * 2 // 5, cells),
        ("of_one_cell", 1, cells),
        ("to_one_cell", cells, 1),
    ):
        for way, place in both_ways(name):
            yield _case(way, (1, 1, *place(size, 1)), place(more, 1))
    side = math.isqrt(cells)
    yield _case("plane", (1, 1, side // 2, side // 2), (side, side))
    yield _case("overlapping", (1, 1, side * 2 // 5, side * 2 // 5), (side, side))
    yield _case("wide_overlapping", (1, 1, 4, cells // 100), (16, cells // 16))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    sizes = [list(attributes[name]) for name in ("output_size", "input_size")]
    scales = [attributes[name] or None for name in ("scales_h", "scales_w")]
    return torch.ops.aten.upsample_nearest2d_backward(tensors["grad_output"], *sizes, *scales)


SAMPLES = Samples(
    draw=_draw,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=_long,
    picture=_case("picture", (1, 1, 2, 3), (4, 5)),
    cases=(
        _case("doubled", (2, 3, 4, 5), (8, 10)),
        _case("same_size", (1, 2, 6, 5), (6, 5)),
        _case("tripled_columns", (1, 2, 3, 7), (3, 21)),
        _case("four_times", (1, 3, 5, 9), (20, 36)),
        _case("uneven", (2, 3, 5, 7), (8, 11)),
        _case("five_times_and_uneven", (1, 2, 3, 4), (15, 9)),
        _case("smaller", (1, 2, 9, 8), (4, 3)),
        _case("smaller_rows", (1, 2, 9, 3), (4, 12)),
        _case("one_cell", (1, 1, 1, 1), (1, 1)),
        _case("from_one_cell", (2, 3, 1, 1), (5, 7)),
        _case("to_one_cell", (1, 2, 5, 4), (1, 1)),
        _case("rounded_products", (1, 1, 2, 26), (82, 14)),
        _case("many_planes", (6, 29, 2, 2), (4, 4)),
        _case("prime_sizes", (1, 13, 17, 19), (31, 47)),
        _case("with_scales", (1, 2, 4, 5), (8, 15), 2.0, 3.0),
        _case("with_one_scale", (1, 2, 4, 5), (8, 10), 0.0, 2.0),
        _case("empty_batch", (0, 3, 4, 4), (8, 8)),
    ),
)
