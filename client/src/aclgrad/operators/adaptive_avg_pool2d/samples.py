"""Calls of adaptive_avg_pool2d."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aclgrad.operators.samples import PLANES, Case, Integer, Samples, both_ways, case, draw_leading, draw_sizes


def pooled_case(name: str, input: tuple[int, ...], *output_size: int) -> Case:
    return case(name, {"output_size": output_size}, self=input)


def _draw(integer: Integer) -> Case:
    return pooled_case(
        "drawn", (*draw_leading(integer), *draw_sizes(integer, 2, 1, 14)), *draw_sizes(integer, 2, 1, 14)
    )


def _rows(length: int) -> tuple[Case, ...]:
    pooled = ((2, max(1, length // 3)), (5, length), (3, length + 2), (1, 1))
    return tuple(pooled_case("rows", (2, 5, length), *each) for each in pooled)


def _long(cells: int) -> Iterator[Case]:
    for name, size, count in (
        ("of_one_window", cells, 1),
        ("of_overlapping_windows", cells, cells * 2 // 3),
        ("of_many_windows", cells // 5, cells),
    ):
        for way, place in both_ways(name):
            yield pooled_case(way, (1, *place(size, 1)), *place(count, 1))
    side = math.isqrt(cells)
    yield pooled_case("plane", (1, side, side), 7, 7)
    yield pooled_case("plane_of_one_window", (1, side, side), 1, 1)
    yield pooled_case("wide_overlapping", (1, 16, cells // 16), 9, cells // 50)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten._adaptive_avg_pool2d(tensors["self"], list(attributes["output_size"]))


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={size: pooled_case("timed", shape, *[7 if shape[-1] % 7 == 0 else 4] * 2) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=_long,
    picture=pooled_case("picture", (1, 1, 4, 5), 2, 3),
    cases=(
        pooled_case("even", (2, 3, 28, 28), 7, 7),
        pooled_case("overlapping", (2, 3, 7, 8), 5, 3),
        pooled_case("larger_output", (2, 2, 4, 5), 9, 11),
        pooled_case("global", (3, 4, 13, 9), 1, 1),
        pooled_case("rank3", (5, 10, 9), 3, 4),
        pooled_case("empty_batch", (0, 3, 4, 4), 2, 2),
    ),
)
