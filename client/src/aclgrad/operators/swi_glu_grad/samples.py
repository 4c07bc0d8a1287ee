"""Calls of swi_glu_grad."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes


def swi_glu_case(name: str, x: tuple[int, ...], dim: int = -1) -> Case:
    axis = dim % len(x)
    return case(name, {"dim": dim}, grad_output=(*x[:axis], x[axis] // 2, *x[axis + 1 :]), x=x)


def _draw(integer: Integer) -> Case:
    sizes = list(draw_sizes(integer, integer(1, 4), 1, 9))
    dim = integer(-len(sizes), len(sizes) - 1)
    sizes[dim] *= 2
    return swi_glu_case("drawn", tuple(sizes), dim)


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    yield swi_glu_case("row", (1, cells))
    yield swi_glu_case("column", (cells, 2))
    yield swi_glu_case("plane", (side, side + side % 2))
    yield swi_glu_case("halves", (2, cells // 2), 0)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    grad, (a, b) = tensors["grad_output"], tensors["x"].chunk(2, attributes["dim"])
    of_a = torch.ops.aten.silu_backward(grad * b, a)
    return torch.cat([of_a, grad * torch.nn.functional.silu(a)], attributes["dim"])


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (swi_glu_case("rows", (3, 2 * length)),),
    timed={
        "16 KB": swi_glu_case("timed", (16, 256)),
        "6 MB": swi_glu_case("timed", (1024, 1536)),
        "100 MB": swi_glu_case("timed", (8192, 3072)),
        "1 GB": swi_glu_case("timed", (81920, 3072)),
    },
    pytorch=_pytorch,
    long=_long,
    picture=swi_glu_case("picture", (2, 4)),
    cases=(
        swi_glu_case("rows", (2, 3, 40)),
        swi_glu_case("first_axis", (4, 3, 5), 0),
        swi_glu_case("middle_axis", (2, 6, 5), -2),
        swi_glu_case("one_row", (74,)),
        swi_glu_case("pairs", (131, 2)),
        swi_glu_case("long_rows", (2, 4100)),
        swi_glu_case("eight_dimensions", (2, 1, 2, 1, 3, 1, 2, 2), 2),
    ),
)
