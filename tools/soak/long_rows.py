"""The calls of `long_shapes` for operators that reduce rows."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from aclgrad.operators._families.softmax.samples import softmax_case
from aclgrad.operators.embedding_dense_backward.samples import embedding_case
from aclgrad.operators.group_norm_backward.samples import group_norm_case
from aclgrad.operators.layer_norm_backward.samples import layer_norm_case
from aclgrad.operators.rms_norm_grad.samples import rms_norm_case
from aclgrad.operators.samples import Case


def _planes(cells: int) -> Iterator[tuple[str, int, int]]:
    """Yields names, rows and columns."""
    side = math.isqrt(cells)
    yield "row", 1, cells
    yield "column", cells, 1
    yield "plane", side, side
    yield "few_long_rows", 40, cells // 40
    yield "many_short_rows", cells // 7, 7


def _layer_norm(cells: int) -> Iterator[Case]:
    for name, rows, columns in _planes(cells):
        yield layer_norm_case(name, (rows,), (columns,))


def _group_norm(cells: int) -> Iterator[Case]:
    for name, rows, columns in _planes(cells):
        yield group_norm_case(f"{name}_of_channels", (1, rows, columns), 1)
        yield group_norm_case(f"{name}_of_samples", (rows, 1, columns), 1)


def _embedding(cells: int) -> Iterator[Case]:
    for name, rows, columns in _planes(cells):
        yield embedding_case(f"{name}_of_weights", (3,), rows, columns)
        yield embedding_case(f"{name}_of_indices", (rows,), 3, columns)
    yield embedding_case("of_both", (cells,), cells, 1)


def _rms_norm(cells: int) -> Iterator[Case]:
    for name, rows, columns in _planes(cells):
        yield rms_norm_case(name, (rows,), (columns,))


def _softmax(cells: int) -> Iterator[Case]:
    for name, rows, columns in _planes(cells):
        for dim in (0, 1):
            yield softmax_case(f"{name}_along_{dim}", (rows, columns), dim)


ROWS: Final[Mapping[str, Callable[[int], Iterator[Case]]]] = {
    "embedding_dense_backward": _embedding,
    "group_norm_backward": _group_norm,
    "layer_norm_backward": _layer_norm,
    "log_softmax_backward": _softmax,
    "rms_norm_grad": _rms_norm,
    "softmax_backward": _softmax,
}
