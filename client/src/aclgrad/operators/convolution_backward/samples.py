"""Calls of convolution_backward."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from aclgrad.operators.convolution_backward.geometry import Geometry, Shape, for_axes
from aclgrad.operators.cube_math_type import HALVING
from aclgrad.operators.samples import Case, Integer, Samples, case, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

_WITH_THREE_AXES = tuple(product for product in Product if product not in HALVING)


def convolution_case(
    name: str,
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
    products: tuple[Product, ...] | None = None,
    only: tuple[str, ...] = (),
    **more: AttributeValue,
) -> Case:
    """A convolution of an input of this shape to so many channels."""
    matrix = (input[1], channels // groups) if transposed else (channels, input[1] // groups)
    weight = (*matrix, *kernel)
    geometry = Geometry.of(input, weight, (), stride, padding, dilation, output_padding, transposed, groups)
    lists: dict[str, AttributeValue] = {
        "stride": tuple(stride),
        "padding": tuple(padding),
        "dilation": tuple(dilation),
        "transposed": transposed,
        "output_padding": tuple(output_padding),
        "groups": groups,
    }
    return case(
        name,
        lists | more,
        products=products or (tuple(Product) if len(kernel) < 3 else _WITH_THREE_AXES),
        only=only,
        grad_output=(input[0], channels, *geometry.output_sizes),
        input=input,
        weight=weight,
    )


def _draw(integer: Integer) -> Case:
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
        # A result has (size - 1) * stride + span - 2 * padding cells, and more.
        least = [max(1, 1 + -(-(1 - each + 2 * p) // s)) for each, p, s in zip(spans, padding, stride, strict=True)]
    else:
        least = [max(1, each - 2 * p) for each, p in zip(spans, padding, strict=True)]
    sizes = tuple(integer(each, each + most) for each in least)
    return convolution_case(
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


def _rows(length: int) -> Iterator[Case]:
    """Vectors hold cells of a row, or channels."""
    yield convolution_case("rows", (2, 3, length), 5, (3,), padding=(1,))
    yield convolution_case("channels", (1, length, 4, 5), 3, (3, 3), padding=(1,))
    yield convolution_case("depthwise", (1, 2, 5, length), 2, (3, 3), padding=(1,), groups=2)


def _timed(images: int, size: int) -> Case:
    return convolution_case("timed", (images, 64, size, size), 64, (3, 3), padding=(1,))


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells // 4)
    yield convolution_case("row", (1, 2, cells // 2), 2, (3,))
    yield convolution_case("plane", (1, 4, side, side), 4, (3, 3), padding=(1,))
    yield convolution_case("channels", (1, cells // 4, 2, 2), 1, (1, 1))
    yield convolution_case("depthwise", (1, cells // 16, 4, 4), cells // 16, (3, 3), padding=(1,), groups=cells // 16)
    yield convolution_case("images", (cells // 16, 1, 4, 4), 1, (2, 2), stride=(2,))


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    axes = tensors["input"].ndim - 2
    lists = {name: list(for_axes(attributes[name], axes)) for name in ("stride", "padding", "dilation")}
    return torch.ops.aten.convolution_backward(
        tensors["grad_output"],
        tensors["input"],
        tensors["weight"],
        list(tensors["grad_output"].shape[1:2]),
        *lists.values(),
        attributes["transposed"],
        list(for_axes(attributes["output_padding"], axes)),
        attributes["groups"],
        [True] * 3,
    )


_PLANES = (2, 6, 9, 11)
_UP: Any = {"transposed": True, "stride": (2,), "padding": (1,)}

SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={
        "16 KB": convolution_case("timed", (1, 16, 16, 16), 16, (3, 3), padding=(1,)),
        "6 MB": _timed(8, 56),
        "100 MB": _timed(32, 112),
        "1 GB": _timed(80, 224),
    },
    pytorch=_pytorch,
    long=_long,
    has_signed_weights=True,
    picture=convolution_case("picture", (1, 1, 4, 5), 1, (3, 3), padding=(1,)),
    cases=(
        convolution_case("planes", _PLANES, 8, (3, 3), padding=(1,)),
        convolution_case("strided", _PLANES, 8, (3, 3), stride=(2,), padding=(1,)),
        convolution_case("steps_beyond_windows", (2, 3, 14, 15), 4, (2, 1), stride=(3, 4)),
        convolution_case("dilated", _PLANES, 4, (3, 2), padding=(2, 1), dilation=(2, 3)),
        convolution_case("dilated_steps", (2, 3, 13, 15), 4, (3, 3), stride=(2, 3), padding=(3,), dilation=(2, 3)),
        convolution_case("points", _PLANES, 16, (1, 1)),
        convolution_case("strided_points", _PLANES, 16, (1, 1), stride=(2,)),
        convolution_case("large_kernel", (1, 2, 20, 21), 3, (7, 9), stride=(2,), padding=(3, 4)),
        convolution_case("one_window", (3, 4, 5, 6), 7, (5, 6)),
        convolution_case("more_padding_than_kernel", (1, 2, 3, 4), 3, (2, 2), padding=(3,)),
        convolution_case("groups", _PLANES, 9, (3, 3), padding=(1,), groups=3),
        convolution_case("depthwise", (2, 5, 9, 11), 5, (3, 3), padding=(1,), groups=5),
        convolution_case("depthwise_multiplied", (2, 4, 9, 11), 12, (5, 3), stride=(2, 1), padding=(2, 1), groups=4),
        convolution_case("many_channels", (1, 70, 5, 6), 40, (3, 3), padding=(1,)),
        convolution_case("few_cells", (1, 300, 1, 1), 33, (1, 1)),
        convolution_case("rank3", (2, 5, 31), 6, (4,), stride=(2,), padding=(1,)),
        convolution_case("rank3_dilated", (2, 4, 40), 6, (3,), dilation=(5,), groups=2),
        convolution_case("rank5", (2, 3, 4, 5, 6), 4, (2, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1)),
        convolution_case("rank5_groups", (1, 4, 4, 4, 5), 6, (2, 2, 3), dilation=(1, 2, 1), groups=2),
        convolution_case("transposed", (2, 6, 4, 5), 4, (3, 3), **_UP),
        convolution_case("transposed_further", (2, 6, 4, 5), 4, (4, 3), **_UP, output_padding=(1,)),
        convolution_case("transposed_groups", (2, 6, 4, 5), 4, (3, 2), **_UP, groups=2),
        convolution_case("transposed_rank3", (2, 3, 9), 5, (4,), **_UP),
        convolution_case("transposed_rank5", (1, 3, 2, 3, 4), 2, (3, 3, 2), **_UP, output_padding=(1, 0, 1)),
        convolution_case("transposed_dilated", (1, 3, 5, 6), 4, (3, 2), transposed=True, dilation=(2,), stride=(1, 3)),
        convolution_case("with_bias_sizes", _PLANES, 8, (1, 3), bias_sizes=(8,)),
        convolution_case("half", _PLANES, 8, (3, 3), only=("float32", "bfloat16"), cube_math_type=2),
        convolution_case("half_groups", _PLANES, 4, (3, 3), only=("float32",), cube_math_type=1, groups=2),
        convolution_case(
            "hfloat32", _PLANES, 8, (3, 3), only=("float32",), products=_WITH_THREE_AXES, cube_math_type=3
        ),
        convolution_case("no_batch", (0, 3, 5, 6), 4, (3, 3)),
        convolution_case("no_channels", (2, 3, 5, 6), 0, (3, 3)),
    ),
)
