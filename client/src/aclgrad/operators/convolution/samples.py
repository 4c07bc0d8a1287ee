"""Calls of convolution."""

from collections.abc import Mapping
from typing import Any

from aclgrad.operators.families.convolution.geometry import Shape
from aclgrad.operators.families.convolution.samples import (
    PLANES,
    UP,
    WITH_THREE_AXES,
    convolved,
    drawn,
    long_of,
    products_of,
    pytorch_lists,
    rows_of,
    timed_of,
)
from aclgrad.operators.samples import Case, Integer, Samples, case
from aclgrad.products import Product


def convolution_case(
    name: str,
    input: Shape,
    channels: int,
    kernel: Shape,
    *,
    has_bias: bool = True,
    products: tuple[Product, ...] | None = None,
    only: tuple[str, ...] = (),
    **more: Any,
) -> Case:
    """A convolution of an input of this shape to so many channels."""
    geometry, attributes = convolved(input, channels, kernel, **more)
    bias: dict[str, Any] = {"bias": (channels,)} if has_bias else {}
    return case(
        name,
        attributes,
        products=products or products_of(kernel),
        only=only,
        in_pytorch=channels > 0,
        input=input,
        weight=geometry.weight,
        **bias,
    )


def _draw(integer: Integer) -> Case:
    has_bias = bool(integer(0, 1))
    return drawn(
        integer, lambda *given, **more: convolution_case(*given, has_bias=has_bias, **more), has_covered_padding=True
    )


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    lists = pytorch_lists(attributes, tensors["input"].ndim - 2)
    more = lists.pop("output_padding")
    return torch.ops.aten.convolution(
        tensors["input"],
        tensors["weight"],
        tensors.get("bias"),
        *lists.values(),
        attributes["transposed"],
        more,
        attributes["groups"],
    )


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: rows_of(length, convolution_case),
    timed=timed_of(convolution_case),
    pytorch=_pytorch,
    long=lambda cells: long_of(cells, convolution_case),
    has_signed_weights=True,
    picture=convolution_case("picture", (1, 1, 4, 5), 1, (3, 3), padding=(1,)),
    cases=(
        convolution_case("planes", PLANES, 8, (3, 3), padding=(1,)),
        convolution_case("without_bias", PLANES, 8, (3, 2), stride=(2, 1), padding=(2, 1), has_bias=False),
        convolution_case("groups", PLANES, 9, (3, 2), stride=(1, 2), padding=(2, 1), dilation=(2, 3), groups=3),
        convolution_case("depthwise", (2, 5, 9, 11), 5, (3, 3), padding=(1,), groups=5),
        convolution_case("strided_points", PLANES, 16, (1, 1), stride=(2,)),
        convolution_case("many_channels", (1, 70, 5, 6), 40, (3, 3), padding=(1,)),
        convolution_case("rank3", (2, 5, 31), 6, (4,), stride=(2,), padding=(1,)),
        convolution_case("rank5", (2, 4, 4, 5, 6), 6, (2, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1), groups=2),
        convolution_case("transposed", (2, 6, 4, 5), 4, (4, 3), **UP, output_padding=(1,), groups=2),
        convolution_case("transposed_rank3", (2, 3, 9), 5, (2,), transposed=True, stride=(3,)),
        convolution_case("transposed_rank5", (1, 3, 2, 3, 4), 2, (3, 3, 2), **UP, output_padding=(1, 0, 1)),
        convolution_case("half", PLANES, 8, (3, 3), only=("float32", "bfloat16"), cube_math_type=2),
        convolution_case("hfloat32", PLANES, 8, (3, 3), only=("float32",), products=WITH_THREE_AXES, cube_math_type=3),
        convolution_case("no_batch", (0, 3, 5, 6), 4, (3, 3)),
        convolution_case("no_channels", (2, 3, 5, 6), 0, (3, 3)),
    ),
)
