"""Long calls of adaptive average pooling."""

import math
from collections.abc import Iterator

from aclgrad.operators.samples import Case, both_ways, case


def long_adaptive(cells: int, axes: int) -> Iterator[Case]:
    """Yields planes, or volumes with a depth of 1, of long and of many windows."""

    def pooled(name: str, grad_output: tuple[int, ...], input: tuple[int, ...]) -> Case:
        leading = (1,) * (axes - 1)
        return case(name, grad_output=(*leading, *grad_output), self=(*leading, *input))

    for name, count, size in (
        ("of_one_window", 1, cells),
        ("of_overlapping_windows", cells * 2 // 3, cells),
        ("of_one_to_one", cells, cells),
        ("of_many_windows", cells, cells // 5),
        ("of_one_cell", cells, 1),
    ):
        for way, place in both_ways(name):
            yield pooled(way, place(count, 1), place(size, 1))
    side = math.isqrt(cells)
    yield pooled("plane", (7, 7), (side, side))
    yield pooled("plane_of_one_window", (1, 1), (side, side))
    yield pooled("plane_of_many_windows", (side, side), (5, 5))
    yield pooled("overlapping", (side * 2 // 3, side * 2 // 3), (side, side))
    yield pooled("wide_overlapping", (9, cells // 50), (16, cells // 16))
