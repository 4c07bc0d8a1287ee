"""Convolution."""

from collections.abc import Sequence

from aclgrad.operators.definitions import Array
from aclgrad.operators.families.convolution.definition import by_group, gathered, on_grid, scattered
from aclgrad.operators.families.convolution.geometry import Geometry


def value(
    input: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sequence[int] = (1,),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    transposed: bool = False,
    output_padding: Sequence[int] = (0,),
    groups: int = 1,
    cube_math_type: int | None = None,
) -> Array:
    """Tap by tap, each of which is a product of matrices."""
    geometry = Geometry.of(
        input.shape, weight.shape, None, stride, padding, dilation, output_padding, transposed, groups
    )
    matrices = by_group(weight, 0, groups)
    if transposed:
        found = scattered(input, matrices, geometry)
    else:
        found = gathered(on_grid(input, geometry), matrices, geometry).reshape(geometry.result)
    return found if bias is None else found + bias.reshape(-1, *[1] * (input.ndim - 2))
