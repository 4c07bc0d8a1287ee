"""Calls of convolution_backward."""

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
from aclgrad.operators.samples import Case, Samples, case
from aclgrad.products import Product


def convolution_case(
    name: str,
    input: Shape,
    channels: int,
    kernel: Shape,
    *,
    products: tuple[Product, ...] | None = None,
    only: tuple[str, ...] = (),
    **more: Any,
) -> Case:
    """A convolution of an input of this shape to so many channels."""
    geometry, attributes = convolved(input, channels, kernel, **more)
    return case(
        name,
        attributes,
        products=products or products_of(kernel),
        only=only,
        grad_output=geometry.result,
        input=input,
        weight=geometry.weight,
    )


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    lists = pytorch_lists(attributes, tensors["input"].ndim - 2)
    more = lists.pop("output_padding")
    return torch.ops.aten.convolution_backward(
        tensors["grad_output"],
        tensors["input"],
        tensors["weight"],
        list(tensors["grad_output"].shape[1:2]),
        *lists.values(),
        attributes["transposed"],
        more,
        attributes["groups"],
        [True] * 3,
    )


SAMPLES = Samples(
    draw=lambda integer: drawn(integer, convolution_case),
    rows=lambda length: rows_of(length, convolution_case),
    timed=timed_of(convolution_case),
    pytorch=_pytorch,
    long=lambda cells: long_of(cells, convolution_case),
    has_signed_weights=True,
    picture=convolution_case("picture", (1, 1, 4, 5), 1, (3, 3), padding=(1,)),
    cases=(
        convolution_case("planes", PLANES, 8, (3, 3), padding=(1,)),
        convolution_case("strided", PLANES, 8, (3, 3), stride=(2,), padding=(1,)),
        convolution_case("steps_beyond_windows", (2, 3, 14, 15), 4, (2, 1), stride=(3, 4)),
        convolution_case("dilated", PLANES, 4, (3, 2), padding=(2, 1), dilation=(2, 3)),
        convolution_case("dilated_steps", (2, 3, 13, 15), 4, (3, 3), stride=(2, 3), padding=(3,), dilation=(2, 3)),
        convolution_case("points", PLANES, 16, (1, 1)),
        convolution_case("strided_points", PLANES, 16, (1, 1), stride=(2,)),
        convolution_case("large_kernel", (1, 2, 20, 21), 3, (7, 9), stride=(2,), padding=(3, 4)),
        convolution_case("one_window", (3, 4, 5, 6), 7, (5, 6)),
        convolution_case("more_padding_than_kernel", (1, 2, 3, 4), 3, (2, 2), padding=(3,)),
        convolution_case("groups", PLANES, 9, (3, 3), padding=(1,), groups=3),
        convolution_case("depthwise", (2, 5, 9, 11), 5, (3, 3), padding=(1,), groups=5),
        convolution_case("depthwise_multiplied", (2, 4, 9, 11), 12, (5, 3), stride=(2, 1), padding=(2, 1), groups=4),
        convolution_case("many_channels", (1, 70, 5, 6), 40, (3, 3), padding=(1,)),
        convolution_case("few_cells", (1, 300, 1, 1), 33, (1, 1)),
        convolution_case("rank3", (2, 5, 31), 6, (4,), stride=(2,), padding=(1,)),
        convolution_case("rank3_dilated", (2, 4, 40), 6, (3,), dilation=(5,), groups=2),
        convolution_case("rank5", (2, 3, 4, 5, 6), 4, (2, 3, 3), stride=(1, 2, 1), padding=(0, 1, 1)),
        convolution_case("rank5_groups", (1, 4, 4, 4, 5), 6, (2, 2, 3), dilation=(1, 2, 1), groups=2),
        convolution_case("transposed", (2, 6, 4, 5), 4, (3, 3), **UP),
        convolution_case("transposed_further", (2, 6, 4, 5), 4, (4, 3), **UP, output_padding=(1,)),
        convolution_case("transposed_groups", (2, 6, 4, 5), 4, (3, 2), **UP, groups=2),
        convolution_case("transposed_rank3", (2, 3, 9), 5, (4,), **UP),
        convolution_case("transposed_rank5", (1, 3, 2, 3, 4), 2, (3, 3, 2), **UP, output_padding=(1, 0, 1)),
        convolution_case("transposed_dilated", (1, 3, 5, 6), 4, (3, 2), transposed=True, dilation=(2,), stride=(1, 3)),
        convolution_case("with_bias_sizes", PLANES, 8, (1, 3), bias_sizes=(8,)),
        convolution_case("half", PLANES, 8, (3, 3), only=("float32", "bfloat16"), cube_math_type=2),
        convolution_case("half_groups", PLANES, 4, (3, 3), only=("float32",), cube_math_type=1, groups=2),
        convolution_case("hfloat32", PLANES, 8, (3, 3), only=("float32",), products=WITH_THREE_AXES, cube_math_type=3),
        convolution_case("no_batch", (0, 3, 5, 6), 4, (3, 3)),
        convolution_case("no_channels", (2, 3, 5, 6), 0, (3, 3)),
    ),
)
