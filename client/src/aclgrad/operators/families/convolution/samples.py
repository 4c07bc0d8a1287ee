"""Convolutions that the samples of several operators share."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from aclgrad.operators.cube_math_type import HALVING
from aclgrad.operators.families.convolution.geometry import Geometry, Shape, for_axes
from aclgrad.operators.samples import Case, Integer, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

MakeCase = Callable[..., Case]
"""Makes a case of a name, an input's shape, channels of the result and a kernel, and lists by their names."""

WITH_THREE_AXES: Final = tuple(product for product in Product if product not in HALVING)
PLANES: Final = (2, 6, 9, 11)
UP: Final[Mapping[str, Any]] = {"transposed": True, "stride": (2,), "padding": (1,)}


def convolved(
    input: Shape,
    channels: int,
    kernel: Shape,
    *,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    output_padding: Sequence[int] = (0,),
    transposed: bool = False,
    groups: int = 1,
    **more: AttributeValue,
) -> tuple[Geometry, dict[str, AttributeValue]]:
    """Returns a convolution of an input of this shape to so many channels, and the attributes of its calls."""
    matrix = (input[1], channels // groups) if transposed else (channels, input[1] // groups)
    geometry = Geometry.of(
        input, (*matrix, *kernel), None, stride, padding, dilation, output_padding, transposed, groups
    )
    lists: dict[str, AttributeValue] = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "transposed": transposed,
        "output_padding": tuple(output_padding),
        "groups": groups,
    }
    return geometry, lists | more


def products_of(kernel: Shape) -> tuple[Product, ...]:
    """Returns the products that convolve along as many axes."""
    return tuple(Product) if len(kernel) < 3 else WITH_THREE_AXES


def drawn(integer: Integer, make: MakeCase, *, has_covered_padding: bool = False) -> Case:
    """Draws a convolution; along three axes the padding of a transposed one may have to be covered by its kernel."""
    axes = integer(1, 3)
    groups, most = integer(1, 3), (0, 30, 9, 5)[axes]
    channels = groups * integer(1, 5), groups * integer(1, 5)
    kernel, stride = draw_sizes(integer, axes, 1, 4), draw_sizes(integer, axes, 1, 3)
    padding, dilation = draw_sizes(integer, axes, 0, 3), draw_sizes(integer, axes, 1, 3)
    transposed = bool(integer(0, 1))
    bounds = stride if axes == 3 else tuple(map(max, stride, dilation))
    more = tuple(integer(0, bound - 1) for bound in bounds) if transposed else (0,)
    spans = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if transposed:
        if has_covered_padding and axes == 3:
            padding = tuple(min(p, each - 1) for p, each in zip(padding, spans, strict=True))
        # A result has (size - 1) * stride + span - 2 * padding cells, and more.
        least = [max(1, 1 + -(-(1 - each + 2 * p) // s)) for each, p, s in zip(spans, padding, stride, strict=True)]
    else:
        least = [max(1, each - 2 * p) for each, p in zip(spans, padding, strict=True)]
    sizes = tuple(integer(each, each + most) for each in least)
    return make(
        "drawn",
        (integer(0, 3), channels[0], *sizes),
        channels[1],
        kernel,
        stride=stride,
        padding=padding,
        dilation=dilation,
        output_padding=more,
        transposed=transposed,
        groups=groups,
    )


def rows_of(length: int, make: MakeCase) -> Iterator[Case]:
    """Vectors hold cells of a row, or channels."""
    yield make("rows", (2, 3, length), 5, (3,), padding=(1,))
    yield make("channels", (1, length, 4, 5), 3, (3, 3), padding=(1,))
    yield make("depthwise", (1, 2, 5, length), 2, (3, 3), padding=(1,), groups=2)


def timed_of(make: MakeCase) -> dict[str, Case]:
    """Returns a case for each size at which kernels are timed."""
    sizes = {"16 KB": (1, 16, 16), "6 MB": (8, 64, 56), "100 MB": (32, 64, 112), "1 GB": (80, 64, 224)}
    return {
        name: make("timed", (images, channels, side, side), channels, (3, 3), padding=(1,))
        for name, (images, channels, side) in sizes.items()
    }


def long_of(cells: int, make: MakeCase) -> Iterator[Case]:
    """Yields a row, a plane, many channels and many images."""
    side = math.isqrt(cells // 4)
    yield make("row", (1, 2, cells // 2), 2, (3,))
    yield make("plane", (1, 4, side, side), 4, (3, 3), padding=(1,))
    yield make("channels", (1, cells // 4, 2, 2), 1, (1, 1))
    yield make("depthwise", (1, cells // 16, 4, 4), cells // 16, (3, 3), padding=(1,), groups=cells // 16)
    yield make("images", (cells // 16, 1, 4, 4), 1, (2, 2), stride=(2,))


def pytorch_lists(attributes: Mapping[str, Any], axes: int) -> dict[str, list[int]]:
    """Returns the lists with a value for each axis, by their names."""
    names = ("stride", "padding", "dilation", "output_padding")
    return {name: list(for_axes(attributes[name], axes)) for name in names}
