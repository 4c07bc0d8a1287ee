"""Calls of max_unpool3d_backward."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.max_unpool.samples import long_unpooled
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case, draw_leading, draw_sizes

_SPATIAL: Final = 3


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Indices of any cell; if the size was doubled, of one of its own eight cells, as max pooling chooses them."""
    input, output = example.shapes["self"], example.shapes["grad_output"][-_SPATIAL:]
    if output != tuple(2 * size for size in input[-_SPATIAL:]):
        return {**arrays, "indices": generator.integers(0, math.prod(output), input)}
    positions = [
        2 * np.arange(size).reshape(-1, *[1] * (_SPATIAL - 1 - axis)) + generator.integers(0, 2, input)
        for axis, size in enumerate(input[-_SPATIAL:])
    ]
    indices = (positions[0] * output[1] + positions[1]) * output[2] + positions[2]
    return {**arrays, "indices": indices}


def _case(name: str, input: tuple[int, ...], output_size: tuple[int, ...], **attributes: tuple[int, ...]) -> Case:
    grad_output = (*input[:-_SPATIAL], *output_size)
    given = {"output_size": output_size, **attributes}
    return case(name, given, fixed={"indices": "int64"}, grad_output=grad_output, self=input, indices=input)


def _draw(integer: Integer) -> Case:
    output_size = draw_sizes(integer, _SPATIAL, 1, 7)
    leading = draw_leading(integer)
    # No axis needs to be the smaller one, only the volume.
    depth = integer(1, 5)
    height = integer(1, max(1, min(5, math.prod(output_size) // depth)))
    width = integer(1, max(1, min(5, math.prod(output_size) // (depth * height))))
    depth = min(depth, math.prod(output_size))
    given = {"stride": draw_sizes(integer, _SPATIAL, 1, 3), "padding": draw_sizes(integer, _SPATIAL, -2, 2)}
    return _case("drawn", (*leading, depth, height, width), output_size, **given)


def _rows(length: int) -> tuple[Case, ...]:
    return (_case("rows", (2, 1, 3, length), (1, 5, length)),)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    indices = tensors["indices"]
    return tensors["grad_output"].flatten(-_SPATIAL).gather(-1, indices.flatten(-_SPATIAL)).view(indices.shape)


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={
        "16 KB": _case("timed", (1, 2, 4, 8, 8), (8, 16, 16)),
        "6 MB": _case("timed", (1, 32, 16, 28, 28), (32, 56, 56)),
        "100 MB": _case("timed", (8, 64, 16, 28, 28), (32, 56, 56)),
        "1 GB": _case("timed", (80, 64, 16, 28, 28), (32, 56, 56)),
    },
    pytorch=_pytorch,
    long=lambda cells: long_unpooled(cells, 3, _case),
    values=_values,
    picture=_case("picture", (1, 1, 2, 2, 2), (2, 4, 4)),
    cases=(
        _case("doubled", (2, 3, 2, 4, 4), (4, 8, 8)),
        _case("rank4", (3, 2, 3, 4), (4, 6, 8)),
        _case("same_size", (1, 2, 3, 4, 5), (3, 4, 5)),
        _case("one_cell", (1, 1, 1, 1, 1), (1, 1, 1)),
        _case("one_cell_of_many", (2, 2, 1, 1, 1), (3, 5, 7)),
        _case("flat_depth", (2, 3, 1, 5, 6), (1, 10, 12)),
        _case("line", (1, 4, 1, 1, 17), (1, 1, 33)),
        _case("reshaped_volume", (1, 2, 2, 3, 4), (6, 2, 2)),
        _case("prime_sizes", (1, 3, 5, 7, 11), (7, 11, 13)),
        _case("many_planes", (7, 19, 1, 2, 2), (2, 4, 4)),
        _case("with_stride", (1, 2, 2, 2, 2), (4, 4, 4), stride=(2, 2, 2), padding=(1, 1, 1)),
        _case("negative_padding", (1, 2, 2, 2, 2), (4, 4, 4), padding=(-1, 0, -3)),
        _case("empty_batch", (0, 2, 2, 2, 2), (4, 4, 4)),
        _case("empty_batch_rank4", (0, 2, 2, 2), (4, 4, 4)),
    ),
)
