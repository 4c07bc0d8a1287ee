"""Max pooling in two dimensions and its gradient, given the argmax."""

from collections.abc import Sequence

from aclgrad.masks import Pooling
from aclgrad.operators.definitions import Array
from aclgrad.operators.families.pooling2d.definition import maxima, scatter


def backward(
    grad_output: Array,
    input: Array | Sequence[int],
    indices: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Array:
    """Each pooled cell gives its gradient to the cell that its index names; the windows make no difference."""
    return scatter(grad_output, input, indices)


def forward(
    grad_output: Array,
    input: Array,
    indices: Array,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> Array:
    """The maximum of every window."""
    return maxima(input, Pooling.of(input.shape[-2:], kernel_size, stride, padding, ceil_mode, dilation))
