"""Calls that move elements."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, case, draw_sizes, long_planes
from aclgrad.wire.values import AttributeValue

Attributes = Mapping[str, AttributeValue]
Shape = tuple[int, ...]


def _copy(name: str, whole: Shape, source: Shape, src: str = "", **part: AttributeValue) -> Case:
    return case(name, part, fixed={"src": src} if src else {}, self=whole, src=source)


def _draw_copy(integer: Integer) -> Case:
    whole = draw_sizes(integer, integer(0, 3), 1, 7)
    count = math.prod(whole)
    rows = integer(1, count)
    stride = integer(1, max((count - 1) // max(rows - 1, 1), 1)) if rows > 1 else 1
    offset = integer(0, count - 1 - stride * (rows - 1))
    if integer(0, 2) == 0:
        return _copy("drawn", whole, whole if integer(0, 1) else whole[1:])
    return _copy("drawn", whole, (rows,) if integer(0, 1) else (1,), shape=(rows,), offset=offset, strides=(stride,))


def _convertible(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Numbers that the type of self holds, but for what is behind the point."""
    whole, src = arrays["self"], arrays["src"]
    if src.dtype == whole.dtype or src.dtype.kind == "b":
        return arrays
    small = src % 100 if src.dtype.kind in "iu" else np.abs(src)
    return {**arrays, "src": small.astype(src.dtype)}


def _copied(tensors: Mapping[str, Any], given: Attributes) -> Any:
    import torch

    whole, src = tensors["self"], tensors["src"]
    shape = whole.shape if given["shape"] is None else given["shape"]
    part = torch.empty(shape, dtype=whole.dtype).copy_(src)
    if given["shape"] is None:
        return part
    strides = torch.empty(shape).stride() if given["strides"] is None else given["strides"]
    return torch.as_strided_scatter(whole.contiguous(), part, shape, strides, given["offset"])


def _fill(name: str, shape: Shape, value: AttributeValue) -> Case:
    return case(name, {"value": value}, self=shape)


def _filled(tensors: Mapping[str, Any], given: Attributes) -> Any:
    import torch

    return torch.full_like(tensors["self"], given["value"])


def _cat(name: str, *shapes: Shape, dim: int = 0, **fixed: str) -> Case:
    named = {f"tensors_{place}": each for place, each in enumerate(shapes)}
    return replace(case(name, {"dim": dim}, fixed=fixed), shapes=named)


def _halves(shape: Shape) -> tuple[Shape, Shape]:
    half = (shape[0], shape[1] // 2, *shape[2:])
    return half, half


def _draw_cat(integer: Integer) -> Case:
    shape = draw_sizes(integer, integer(1, 4), 1, 6)
    axis = integer(0, len(shape) - 1)
    others = [(*shape[:axis], integer(0, 6), *shape[axis + 1 :]) for _ in range(integer(0, 4))]
    return _cat("drawn", shape, *others, dim=axis - len(shape) * integer(0, 1))


def _joined(tensors: Mapping[str, Any], given: Attributes) -> Any:
    import torch

    return torch.cat(list(tensors.values()), given["dim"])


SAMPLES: Final[Mapping[str, Samples]] = {
    "inplace_copy": Samples(
        draw=_draw_copy,
        rows=lambda length: (_copy("rows", (3, length), (length,)),),
        timed={size: _copy("timed", shape, shape) for size, shape in PLANES.items()},
        pytorch=_copied,
        values=_convertible,
        long=lambda cells: (_copy(name, tuple(plane), tuple(plane)) for name, *plane in long_planes(cells)),
        picture=_copy("picture", (2, 4), (2, 2), shape=(2, 2), offset=1, strides=(4, 1)),
        cases=(
            _copy("all", (3, 40), (40,)),
            _copy("converted", (3, 5), (3, 5), "int32"),
            _copy("columns", (4, 10), (4, 3), shape=(4, 3), offset=2, strides=(10, 2)),
            _copy("rows", (4, 10), (2, 10), "float16", shape=(2, 10), offset=20),
            _copy("transposed", (6, 5), (5, 6), shape=(5, 6), strides=(1, 5)),
            _copy("scalar", (), ()),
            _copy("nothing", (3, 4), (0, 4), shape=(0, 4)),
        ),
    ),
    "inplace_fill_scalar": Samples(
        draw=lambda integer: _fill("drawn", draw_sizes(integer, integer(0, 4), 0, 7), integer(0, 1)),
        rows=lambda length: (_fill("rows", (length,), 1),),
        timed={size: _fill("timed", shape, 0) for size, shape in PLANES.items()},
        pytorch=_filled,
        long=lambda cells: (_fill(name, tuple(plane), 1) for name, *plane in long_planes(cells)),
        picture=_fill("picture", (2, 4), 1),
        cases=(
            _fill("ones", (3, 40), 1),
            _fill("zeros", (7,), False),
            _fill("scalar", (), True),
            _fill("nothing", (0, 3), 1),
        ),
    ),
    "cat": Samples(
        draw=_draw_cat,
        rows=lambda length: (_cat("rows", (3, length), (3, 5), dim=1),),
        timed={size: _cat("timed", *_halves(shape), dim=1) for size, shape in PLANES.items()},
        pytorch=_joined,
        long=lambda cells: (
            _cat(name, (rows, columns), (rows, 1), dim=1) for name, rows, columns in long_planes(cells)
        ),
        picture=_cat("picture", (2, 2), (2, 3), dim=1),
        cases=(
            _cat("rows", (2, 37), (3, 37)),
            _cat("middle", (2, 3, 5), (2, 1, 5), (2, 4, 5), dim=-2),
            _cat("one", (4, 5), dim=1),
            _cat("promoted", (2, 3), (2, 2), dim=1, tensors_1="float32"),
            _cat("with_nothing", (0,), (2, 3), (0, 3)),
            _cat("many", *((1, 2),) * 40),
            _cat("nothing", (0, 3), (0, 3)),
        ),
    ),
}
