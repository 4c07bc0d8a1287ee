"""Calls of adaptive_avg_pool3d_backward."""

import math
from collections.abc import Mapping
from typing import Any

from aclgrad.operators.adaptive_avg_pool3d_backward.spec import ONE_WINDOW
from aclgrad.operators.families.adaptive_avg_pool.samples import long_adaptive
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_sizes
from aclgrad.products import Product

_PRODUCTS = tuple(product for product in Product if product not in ONE_WINDOW)


def _case(
    name: str, leading: tuple[int, ...], pooled: tuple[int, ...], size: tuple[int, ...], *products: Product
) -> Case:
    has_one = pooled == (1, 1, 1)
    return case(
        name,
        only=() if has_one else ("float32", "float16", "bfloat16"),
        products=products or (tuple(Product) if has_one else _PRODUCTS),
        grad_output=(*leading, *pooled),
        self=(*leading, *size),
    )


def _draw(integer: Integer) -> Case:
    channels = integer(1, 18)
    leading = (integer(1, 3), channels) if integer(0, 1) else (channels,)
    return _case("drawn", leading, draw_sizes(integer, 3, 1, 7), draw_sizes(integer, 3, 1, 7))


def _timed(shape: tuple[int, ...]) -> Case:
    """Volumes as deep as there are of them, of planes of the size."""
    batch, channels, height, width = shape
    depth = math.isqrt(channels)
    pooled = 7 if width % 7 == 0 else 4
    return _case("timed", (batch, channels // depth), (4, pooled, pooled), (depth, height, width))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten._adaptive_avg_pool3d_backward(tensors["grad_output"], tensors["self"])


SAMPLES = Samples(
    draw=_draw,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    long=lambda cells: long_adaptive(cells, 3),
    picture=_case("picture", (1, 1), (2, 2, 2), (3, 3, 4)),
    cases=(
        _case("even", (2, 3), (2, 7, 7), (8, 14, 28)),
        _case("global", (3, 4), (1, 1, 1), (5, 13, 9)),
        _case("global_rank4", (3,), (1, 1, 1), (4, 3, 7)),
        _case("overlapping", (2, 3), (3, 5, 3), (4, 7, 8)),
        _case("larger_output", (2, 2), (3, 9, 11), (2, 4, 5)),
        _case("same_size", (1, 2), (3, 6, 5), (3, 6, 5)),
        _case("rank4", (5,), (2, 3, 4), (3, 10, 9)),
        _case("one_cell", (1, 1), (1, 1, 1), (1, 1, 1)),
        _case("depth_alone", (1, 3), (3, 1, 1), (7, 1, 1)),
        _case("flat", (2, 3), (1, 5, 3), (1, 11, 7)),
        _case("tall_windows", (1, 4), (2, 1, 9), (6, 24, 9)),
        _case("one_larger_axis", (1, 3), (13, 2, 2), (5, 8, 3)),
        _case("many_planes", (6, 29), (2, 2, 2), (3, 5, 5)),
        _case("prime_sizes", (1, 7), (3, 11, 13), (5, 29, 31)),
        _case("empty_batch", (0, 3), (2, 2, 2), (4, 4, 4), Product.ASCEND_950),
    ),
)
