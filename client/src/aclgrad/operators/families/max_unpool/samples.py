"""Long calls of unpooling."""

import math
from collections.abc import Callable, Iterator

from aclgrad.operators.samples import Case


def long_unpooled(
    cells: int, axes: int, make: Callable[[str, tuple[int, ...], tuple[int, ...]], Case]
) -> Iterator[Case]:
    """Yields what `make` returns for a name, the shape that is unpooled, and the unpooled size."""
    side = math.isqrt(cells)
    for name, input, output in (
        ("row", (1, cells // 2), (1, cells)),
        ("column", (cells // 2, 1), (cells, 1)),
        ("plane", (side, side), (side, side)),
        ("overlapping", (side, side), (1, 1)),
    ):
        depth = (1,) * (axes - 2)
        yield make(name, (1, 1, *depth, *input), (*depth, *output))
