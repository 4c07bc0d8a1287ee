"""Calls of adaptive_avg_pool2d_backward."""

from collections.abc import Mapping
from typing import Any

from aclgrad.operators.families.adaptive_avg_pool.samples import long_adaptive
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_leading, draw_sizes


def _draw(integer: Integer) -> Case:
    leading = draw_leading(integer)
    pooled, size = draw_sizes(integer, 2, 0, 14), draw_sizes(integer, 2, 0, 14)
    return case("drawn", grad_output=(*leading, *pooled), self=(*leading, *size))


def _timed(input: tuple[int, ...]) -> Case:
    pooled = 7 if input[-1] % 7 == 0 else 4
    return case("timed", grad_output=(*input[:2], pooled, pooled), self=input)


def _rows(length: int) -> tuple[Case, ...]:
    pooled = ((2, max(1, length // 3)), (5, length), (3, length + 2))
    return tuple(case("rows", grad_output=(2, *each), self=(2, 5, length)) for each in pooled)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten._adaptive_avg_pool2d_backward(tensors["grad_output"], tensors["self"])


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=lambda cells: long_adaptive(cells, 2),
    picture=case("picture", grad_output=(1, 1, 2, 3), self=(1, 1, 4, 5)),
    cases=(
        case("even", grad_output=(2, 3, 7, 7), self=(2, 3, 56, 56)),
        case("overlapping", grad_output=(2, 3, 5, 3), self=(2, 3, 7, 8)),
        case("larger_output", grad_output=(2, 2, 9, 11), self=(2, 2, 4, 5)),
        case("same_size", grad_output=(1, 2, 6, 5), self=(1, 2, 6, 5)),
        case("global", grad_output=(3, 4, 1, 1), self=(3, 4, 13, 9)),
        case("rank3", grad_output=(5, 3, 4), self=(5, 10, 9)),
        case("one_cell", grad_output=(1, 1, 1, 1), self=(1, 1, 1, 1)),
        case("one_row", grad_output=(2, 3, 1, 7), self=(2, 3, 1, 31)),
        case("one_column", grad_output=(2, 3, 7, 1), self=(2, 3, 31, 1)),
        case("tall_windows", grad_output=(1, 4, 1, 9), self=(1, 4, 24, 9)),
        case("one_larger_axis", grad_output=(1, 3, 13, 2), self=(1, 3, 5, 8)),
        case("many_planes", grad_output=(6, 29, 2, 2), self=(6, 29, 5, 5)),
        case("prime_sizes", grad_output=(1, 17, 11, 13), self=(1, 17, 29, 31)),
        case("empty_batch", grad_output=(0, 3, 2, 2), self=(0, 3, 4, 4)),
        case("empty_output", grad_output=(1, 2, 0, 3), self=(1, 2, 4, 4)),
        case("empty_input", grad_output=(1, 2, 3, 3), self=(1, 2, 0, 4)),
    ),
)
