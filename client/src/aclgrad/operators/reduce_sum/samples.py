"""Calls of reduce_sum."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes
from aclgrad.tensors import DTYPES


def sum_case(name: str, shape: tuple[int, ...], *dims: int, **attributes: Any) -> Case:
    return case(name, {"dims": dims, **attributes}, self=shape)


def _draw(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(0, 5), 0 if integer(0, 7) == 0 else 1, 7)
    axes = [axis - len(shape) * integer(0, 1) for axis in range(len(shape)) if integer(0, 1)]
    return sum_case("drawn", shape, *axes[:: 1 - 2 * integer(0, 1)], keep_dims=bool(integer(0, 1)))


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    yield sum_case("row", (cells,))
    yield sum_case("column", (cells, 1), 0)
    yield sum_case("plane_of_rows", (side, side), 1)
    yield sum_case("plane_of_columns", (side, side), 0)
    yield sum_case("few_columns", (cells // 7, 7), 0)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    dtype = attributes["dtype"]
    wanted = None if dtype is None else getattr(torch, dtype.name)
    return torch.sum(tensors["self"], list(attributes["dims"]), attributes["keep_dims"], dtype=wanted)


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (sum_case("rows", (3, length), 1), sum_case("rows", (3, length), 0)),
    timed={
        "16 KB": sum_case("timed", (32, 128), 0),
        "6 MB": sum_case("timed", (2048, 768), 0),
        "100 MB": sum_case("timed", (32768, 768), 0),
        "1 GB": sum_case("timed", (327680, 768), 0),
    },
    pytorch=_pytorch,
    long=_long,
    has_signed_weights=True,
    picture=sum_case("picture", (3, 4), 0),
    cases=(
        sum_case("columns", (7, 40), 0),
        sum_case("rows", (7, 131), -1),
        sum_case("planes", (2, 3, 4, 5), 1, 3),
        sum_case("kept", (2, 3, 4, 5), -1, 0, keep_dims=True),
        sum_case("everything", (3, 4, 5)),
        sum_case("scalar", ()),
        sum_case("axis_of_a_scalar", (), -1, keep_dims=True),
        sum_case("long", (4100,), 0),
        sum_case("many_rows", (2049, 3), 0),
        sum_case("eight_dimensions", (2, 1, 2, 3, 1, 2, 1, 2), 0, 3, 7),
        sum_case("nothing", (3, 0, 2), 1),
        sum_case("in_float32", (9, 33), 0, dtype=DTYPES["float32"]),
    ),
)
