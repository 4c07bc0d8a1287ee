"""Calls that the gradients of pooling share: windows, and the indices of their maxima."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from aclgrad.masks import Pooling, argmax_of_input
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, both_ways, draw_leading, draw_sizes
from aclgrad.wire.values import AttributeValue

Windows = Mapping[str, AttributeValue]

OVERLAPPING: Final[Windows] = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}
TIMED: Final[Windows] = {"kernel_size": (3,), "stride": (2,), "padding": (1,)}
_POOLED_PLANES: Final = 64
"""The indices of more planes repeat."""
_LARGE_KERNEL: Final = 64
"""The longest windows that overlap on each cell in a long call."""

# A name, the shape of `self`, and the windows.
GEOMETRIES: Final[tuple[tuple[str, tuple[int, ...], Windows], ...]] = (
    ("overlapping", (2, 3, 9, 10), OVERLAPPING),
    ("stride_of_kernel", (2, 3, 8, 8), {"kernel_size": (2,)}),
    ("rank3", (5, 7, 9), {"kernel_size": (3, 2), "stride": (2, 1)}),
    ("ceil_mode", (1, 4, 7, 8), {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 0), "ceil_mode": True}),
    ("beyond_padding", (1, 2, 5, 5), {"kernel_size": (2,), "stride": (3,), "padding": (1,), "ceil_mode": True}),
    ("dense", (1, 2, 6, 5), {"kernel_size": (3,), "stride": (1,), "padding": (1,)}),
    ("one_cell_windows", (2, 3, 4, 5), {"kernel_size": (1,), "stride": (2,)}),
    ("global", (2, 3, 12, 16), {"kernel_size": (12, 16)}),
    ("gaps", (1, 3, 11, 13), {"kernel_size": (2, 2), "stride": (4, 5)}),
    ("many_channels", (1, 35, 6, 6), {"kernel_size": (2, 2), "stride": (2, 2)}),
    ("one_row", (2, 2, 1, 17), {"kernel_size": (1, 3), "stride": (1, 2), "padding": (0, 1)}),
    ("empty_batch", (0, 3, 6, 6), {"kernel_size": (2,)}),
)


def pooling_of(input: tuple[int, ...], attributes: Windows) -> Pooling:
    """Returns the geometry of a case."""
    names = ("kernel_size", "stride", "padding", "ceil_mode", "dilation")
    given: dict[str, Any] = {name: attributes[name] for name in names if name in attributes}
    return Pooling.of(input[-2:], **given)


def pooled_shape(input: tuple[int, ...], attributes: Windows) -> tuple[int, ...]:
    """Returns the shape of the pooled tensor."""
    return (*input[:-2], *pooling_of(input, attributes).output_size)


def timed(make: Callable[[tuple[int, ...], Windows], Case]) -> dict[str, Case]:
    """Returns a case for each size at which kernels are timed."""
    return {size: make(shape, TIMED) for size, shape in PLANES.items()}


def long_windows(cells: int, make: Callable[[str, tuple[int, ...], Windows], Case]) -> Iterator[Case]:
    """Yields what `make` returns for a name, a shape, and few long or many overlapping windows over it."""
    for name, kernel, stride, padding in (
        ("of_usual_windows", 3, 2, 1),
        ("of_long_strides", 40, 30, 5),
        ("of_one_cell_windows", 1, 1, 0),
        ("of_one_window", cells, cells, 0),
        ("of_two_windows", cells // 2 + 1, cells // 2 - 1, 0),
        ("of_overlapping_windows", _LARGE_KERNEL, 1, 2),
    ):
        for way, place in both_ways(name):
            windows = {"kernel_size": place(kernel, 1), "stride": place(stride, 1), "padding": place(padding, 0)}
            yield make(way, (1, 1, *place(cells, 1)), windows)
    side, few = math.isqrt(cells), math.isqrt(_LARGE_KERNEL)
    yield make("plane", (1, 1, side, side), TIMED)
    yield make("plane_of_one_window", (1, 1, side, side), {"kernel_size": (side,)})
    yield make("overlapping", (1, 1, side, side), {"kernel_size": (few,), "stride": (1,), "padding": (few // 2,)})
    tall: Windows = {"kernel_size": (_LARGE_KERNEL, 3), "stride": (1, 2), "padding": (_LARGE_KERNEL // 2, 1)}
    yield make("wide_overlapping", (1, 1, 2 * _LARGE_KERNEL, cells // (2 * _LARGE_KERNEL)), tall)


def draw_windows(integer: Integer, most: tuple[int, int]) -> tuple[tuple[int, ...], dict[str, AttributeValue]]:
    """Draws a shape, with planes of at most the given size, and windows over it."""
    size = (integer(1, most[0]), integer(1, most[1]))
    kernel = (integer(1, min(5, size[0])), integer(1, min(5, size[1])))
    return (*draw_leading(integer), *size), {
        "kernel_size": kernel,
        "stride": draw_sizes(integer, 2, 1, 5),
        "padding": (integer(0, kernel[0] // 2), integer(0, kernel[1] // 2)),
        "ceil_mode": bool(integer(0, 1)),
    }


def distinct_cells(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Pools the integers up to the number of cells, in each plane in an order of its own.

    All are different, so that each index is the only one that a forward pass would choose, but where a large plane has
    more cells than the dtype has integers: there the first of equal ones is chosen, as PyTorch does.
    """
    shape = example.shapes["self"]
    planes, cells = min(math.prod(shape[:-2]), _POOLED_PLANES), shape[-2] * shape[-1]
    input = generator.permuted(np.tile(np.arange(cells), (planes, 1)), axis=1).astype(arrays["self"].dtype)
    _, argmax = argmax_of_input(input.reshape(planes, *shape[-2:]), pooling_of(shape, example.attributes))
    return {**arrays, "self": np.resize(input, shape), "indices": np.resize(argmax, example.shapes["grad_output"])}


def pytorch_max_pool(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    """PyTorch's gradient of max pooling."""
    import torch

    return torch.ops.aten.max_pool2d_with_indices_backward(
        tensors["grad_output"],
        tensors["self"],
        *[list(attributes[name]) for name in ("kernel_size", "stride", "padding", "dilation")],
        attributes["ceil_mode"],
        tensors["indices"].long(),
    )
