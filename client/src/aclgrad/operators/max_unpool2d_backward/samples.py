"""Calls of max_unpool2d_backward."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aclgrad.operators.families.max_unpool.samples import long_unpooled
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, case, draw_leading, draw_sizes


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Indices of any cell; where the size was doubled, of one of the own four, as a max pooling chooses them."""
    input, (height, width) = example.shapes["self"], example.shapes["grad_output"][-2:]
    indices = generator.integers(0, height * width, input)
    if (height, width) == tuple(2 * size for size in input[-2:]):
        rows, columns = np.indices(input[-2:]) * 2
        indices = (rows + generator.integers(0, 2, input)) * width + columns + generator.integers(0, 2, input)
    return {**arrays, "indices": indices.astype(example.fixed["indices"])}


def _case(name: str, form: str, input: tuple[int, ...], output_size: tuple[int, ...]) -> Case:
    grad_output = (*input[:-2], *output_size)
    return case(
        name,
        {"output_size": output_size},
        fixed={"indices": form},
        grad_output=grad_output,
        self=input,
        indices=input,
    )


def _draw(integer: Integer) -> Case:
    form = ("int64", "int32")[integer(0, 1)]
    return _case("drawn", form, (*draw_leading(integer), *draw_sizes(integer, 2, 1, 9)), draw_sizes(integer, 2, 1, 12))


def _timed(shape: tuple[int, ...]) -> Case:
    """The unpooled tensor has the size; it is twice as high and wide."""
    height, width = shape[2:]
    return _case("timed", "int64", (*shape[:2], height // 2, width // 2), (height, width))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    indices = tensors["indices"].long()
    return tensors["grad_output"].flatten(-2).gather(-1, indices.flatten(-2)).view(indices.shape)


SAMPLES = Samples(
    draw=_draw,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=lambda cells: long_unpooled(cells, 2, lambda name, *given: _case(name, "int64", *given)),
    values=_values,
    picture=_case("picture", "int64", (1, 1, 2, 3), (4, 6)),
    cases=(
        _case("doubled", "int64", (2, 3, 4, 5), (8, 10)),
        _case("doubled_int32", "int32", (2, 3, 4, 5), (8, 10)),
        _case("rank3", "int32", (3, 3, 4), (6, 8)),
        _case("smaller", "int64", (1, 2, 6, 7), (3, 2)),
        _case("one_cell_of_many", "int64", (2, 2, 1, 1), (5, 7)),
        _case("many_of_one_cell", "int32", (2, 2, 5, 7), (1, 1)),
        _case("line", "int64", (1, 4, 1, 17), (1, 33)),
        _case("prime_sizes", "int64", (1, 3, 17, 19), (37, 31)),
        _case("many_planes", "int32", (7, 19, 2, 2), (4, 4)),
        _case("empty_batch", "int64", (0, 2, 2, 2), (4, 4)),
        _case("empty_rows", "int64", (1, 2, 0, 2), (0, 4)),
    ),
)
