"""Calls of max pooling."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aclgrad.operators.families.pooling2d.samples import (
    GEOMETRIES,
    OVERLAPPING,
    Windows,
    draw_windows,
    long_windows,
    pooling_of,
    timed,
)
from aclgrad.operators.samples import Case, Integer, Samples, case
from aclgrad.products import Product

_FEW: Final = ("overlapping", "rank3", "ceil_mode", "one_cell_windows", "many_channels", "empty_batch")
_MASK_BYTES: Final = 32
"""Of a long call's mask, for each cell."""
_DILATED: Final[Windows] = {"kernel_size": (3, 2), "padding": (1, 0), "dilation": (2, 3)}


def _case(name: str, input: tuple[int, ...], attributes: Windows, *products: Product) -> Case:
    return case(name, attributes, products=products or tuple(Product), self=input)


def _draw(integer: Integer) -> Case:
    return _case("drawn", *draw_windows(integer, (14, 14)))


def _rows(length: int) -> tuple[Case, ...]:
    windows = [(kernel, stride) for kernel, stride in ((3, 2), (2, 1), (1, 1), (5, 3)) if kernel <= length]
    return tuple(
        _case(
            "rows",
            (1, 2, 5, length),
            {"kernel_size": (kernel,), "stride": (stride,), "padding": (kernel // 2,)},
        )
        for kernel, stride in windows
    )


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    lists = [list(attributes[name]) for name in ("kernel_size", "stride", "padding", "dilation")]
    return torch.ops.aten.max_pool2d_with_indices(tensors["self"], *lists, attributes["ceil_mode"])


def _long(cells: int) -> Iterator[Case]:
    """Yields long calls but those whose masks would be much larger than the tensors."""
    for each in long_windows(cells, _case):
        pooling = pooling_of(each.shapes["self"], each.attributes)
        if math.prod(pooling.mask_shape((1,))) <= _MASK_BYTES * cells:
            yield each


def _samples(pytorch: Any, *more: Case) -> Samples:
    return Samples(
        draw=_draw,
        rows=_rows,
        timed=timed(lambda shape, windows: _case("timed", shape, windows)),
        pytorch=pytorch,
        long=_long,
        picture=_case("picture", (1, 1, 5, 6), OVERLAPPING),
        cases=(*(_case(*each) for each in GEOMETRIES if each[0] in _FEW), *more),
    )


SAMPLES: Final = {
    "max_pool2d_with_indices": _samples(_pytorch, _case("dilated", (2, 3, 9, 11), _DILATED, Product.ASCEND_950)),
    "max_pool2d_with_mask": _samples(lambda tensors, attributes: _pytorch(tensors, attributes)[0]),
}
