"""Calls whose tensors are one long row, one long column, a large plane, or windows that overlap: what an operator takes
beside its tensors must not grow with any of them."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from aclgrad.operators._families.grid_sampler.samples import grid_sampler_case
from aclgrad.operators._families.pooling2d.samples import pooled_shape, pooling_of
from aclgrad.operators.batch_norm_backward.samples import batch_norm_case
from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import Arrays, Case, case, samples_of
from aclgrad.operators.swi_glu_grad.samples import swi_glu_case
from aclgrad.products import Product
from tools.soak.long_rows import ROWS

Shape = tuple[int, ...]

MAX_OF_TENSORS = 1.3
"""What a call may take in all: this part of the bytes of its tensors, and so much beside them."""
MAX_BESIDE_BYTES = 4 * 2**20


def long_calls(product: Product, cells: int) -> Iterator[TypedCase]:
    """Yields calls of every operator with every dtype; the larger tensor of each has about so many cells."""
    for spec in OPERATORS.values():
        for each in _CASES[spec.name](cells):
            named = replace(each, products=tuple(Product))
            for dtype in served_dtypes(spec, named, product):
                typed = TypedCase(spec, named, dtype)
                if not list(spec.check(typed.arguments, product)):
                    yield typed


def long_arrays(typed: TypedCase) -> Arrays:
    """Returns legal inputs that are made quickly: ones, the first cell of each window, and large boxes."""
    shapes = typed.case.shapes
    given = typed.arguments.inputs
    arrays = {name: np.ones(shape, given[name].dtype.numpy) for name, shape in shapes.items() if name != "boxes"}
    if "boxes" in shapes:
        arrays["boxes"] = _boxes(typed)
    elif "kernel_size" in typed.attributes and "indices" in shapes:
        pooling = pooling_of(shapes["self"], typed.case.attributes)
        rows, columns = (
            np.maximum(np.arange(count) * stride - padding, 0)
            for count, stride, padding in zip(pooling.output_size, pooling.stride, pooling.padding, strict=True)
        )
        first = (rows[:, None] * shapes["self"][-1] + columns).astype(typed.case.fixed["indices"])
        arrays["indices"] = np.resize(first, shapes["indices"])
    elif "indices" in shapes:
        arrays["indices"][:] = 0
    return arrays


def _boxes(typed: TypedCase) -> np.ndarray:
    """Boxes of most of an image, of one image after the other."""
    count = typed.case.shapes["boxes"][0]
    images, _, height, width = typed.case.attributes["input_shape"]
    boxes = np.zeros((count, 5), np.float32)
    boxes[:, 0] = np.arange(count) % images
    boxes[:, 1:] = 0.1 * width, 0.1 * height, 0.9 * width, 0.9 * height
    return boxes


def _both_ways(name: str) -> Iterator[tuple[str, Callable[[int, int], Shape]]]:
    """Yields names and functions that place the sizes along a long axis and across it."""
    yield f"row_{name}", lambda along, across: (across, along)
    yield f"column_{name}", lambda along, across: (along, across)


def _adaptive(rank: int) -> Callable[[int], Iterator[Case]]:
    def cases(cells: int) -> Iterator[Case]:
        def pooled(name: str, grad_output: Shape, input: Shape) -> Case:
            leading = (1,) * (rank - 2)
            return case(name, grad_output=(1, *leading, *grad_output), self=(1, *leading, *input))

        for name, count, size in (
            ("of_one_window", 1, cells),
            ("of_overlapping_windows", cells * 2 // 3, cells),
            ("of_one_to_one", cells, cells),
            ("of_many_windows", cells, cells // 5),
            ("of_one_cell", cells, 1),
        ):
            for way, place in _both_ways(name):
                yield pooled(way, place(count, 1), place(size, 1))
        side = math.isqrt(cells)
        yield pooled("plane", (7, 7), (side, side))
        yield pooled("plane_of_one_window", (1, 1), (side, side))
        yield pooled("plane_of_many_windows", (side, side), (5, 5))
        yield pooled("overlapping", (side * 2 // 3, side * 2 // 3), (side, side))
        yield pooled("wide_overlapping", (9, cells // 50), (16, cells // 16))

    return cases


def _pooling(make: Callable[[str, Shape, Mapping[str, Shape]], Case], most: int) -> Callable[[int], Iterator[Case]]:
    """`most` is the kernel that overlaps most."""

    def cases(cells: int) -> Iterator[Case]:
        for name, kernel, stride, padding in (
            ("of_usual_windows", 3, 2, 1),
            ("of_long_strides", 40, 30, 5),
            ("of_one_cell_windows", 1, 1, 0),
            ("of_one_window", cells, cells, 0),
            ("of_two_windows", cells // 2 + 1, cells // 2 - 1, 0),
            ("of_overlapping_windows", most, 1, 2),
        ):
            for way, place in _both_ways(name):
                windows = {"kernel_size": place(kernel, 1), "stride": place(stride, 1), "padding": place(padding, 0)}
                yield make(way, (1, 1, *place(cells, 1)), windows)
        side = math.isqrt(cells)
        yield make("plane", (1, 1, side, side), {"kernel_size": (3,), "stride": (2,), "padding": (1,)})
        yield make("plane_of_one_window", (1, 1, side, side), {"kernel_size": (side,)})
        few = math.isqrt(most)
        yield make("overlapping", (1, 1, side, side), {"kernel_size": (few,), "stride": (1,), "padding": (few // 2,)})
        tall = {"kernel_size": (most, 3), "stride": (1, 2), "padding": (most // 2, 1)}
        yield make("wide_overlapping", (1, 1, 2 * most, cells // (2 * most)), tall)

    return cases


def _average(name: str, input: Shape, windows: Mapping[str, Shape]) -> Case:
    return case(name, windows, grad_output=pooled_shape(input, windows), self=input)


def _max(name: str, input: Shape, windows: Mapping[str, Shape]) -> Case:
    pooled = pooled_shape(input, windows)
    return case(name, windows, fixed={"indices": "int32"}, grad_output=pooled, self=input, indices=pooled)


def _pad(axes: int, reflects: bool) -> Callable[[int], Iterator[Case]]:
    def padded(name: str, sizes: Shape, padding: Shape) -> Case:
        sizes = ((1, *sizes))[-axes:]
        padding = (*padding, 0, 0)[: 2 * axes]
        both = [padding[2 * axis] + padding[2 * axis + 1] for axis in range(axes)][::-1]
        grad_output = tuple(size + more for size, more in zip(sizes, both, strict=True))
        return case(name, {"padding": padding}, grad_output=(1, 1, *grad_output), self=(1, 1, *sizes))

    def cases(cells: int) -> Iterator[Case]:
        half = cells // 2
        ways = [
            ("by_few", cells, 2, 3),
            ("by_its_size", cells // 3, cells // 3 - 1, cells // 3 - 1),
            ("by_half", half, half // 2, half // 2),
        ]
        ways += [] if reflects else [("of_one_cell", 1, half, half), ("of_few_cells", 3, half, half)]
        ways += [] if axes == 3 else [("cropped", cells, -half, -2), ("cropped_and_padded", half, 1 - half, half - 1)]
        for name, size, before, after in ways:
            yield padded(f"row_{name}", (1, size), (before, after, 0, 0))
            if axes > 1:
                yield padded(f"column_{name}", (size, 1), (0, 0, before, after))
        if axes > 1:
            side = math.isqrt(cells)
            yield padded("plane", (side, side), (1, 2, 3, 4))
            yield padded("overlapping", (side // 3, side // 3), (side // 3 - 1,) * 4)
            yield padded("wide_overlapping", (8, cells // 64), (cells // 128, cells // 128, 7, 7))

    return cases


def _upsampling(cells: int) -> Iterator[Case]:
    def upsampled(name: str, input: Shape, output: Shape) -> Case:
        attributes = {"output_size": output, "input_size": (1, 1, *input)}
        return case(name, attributes, grad_output=(1, 1, *output))

    for name, size, more in (
        ("doubled", cells // 2, cells),
        ("same_size", cells, cells),
        ("uneven", cells * 2 // 5, cells),
        ("of_one_cell", 1, cells),
        ("to_one_cell", cells, 1),
    ):
        for way, place in _both_ways(name):
            yield upsampled(way, place(size, 1), place(more, 1))
    side = math.isqrt(cells)
    yield upsampled("plane", (side // 2, side // 2), (side, side))
    yield upsampled("overlapping", (side * 2 // 5, side * 2 // 5), (side, side))
    yield upsampled("wide_overlapping", (4, cells // 100), (16, cells // 16))


def _unpooling(axes: int) -> Callable[[int], Iterator[Case]]:
    def cases(cells: int) -> Iterator[Case]:
        side = math.isqrt(cells)
        for name, input, output in (
            ("row", (1, cells // 2), (1, cells)),
            ("column", (cells // 2, 1), (cells, 1)),
            ("plane", (side, side), (side, side)),
            ("overlapping", (side, side), (1, 1)),
        ):
            first = (1,) * (axes - 2)
            shape, size = (1, 1, *first, *input), (*first, *output)
            yield case(
                name, {"output_size": size}, fixed={"indices": "int64"}, grad_output=(1, 1, *size), self=shape,
                indices=shape,
            )  # fmt: skip

    return cases


def _batch_norm(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    for name, shape in (
        ("row", (1, 1, cells)),
        ("column", (cells, 1)),
        ("channels", (2, cells // 2)),
        ("short_rows", (cells // 9, 3, 3)),
        ("plane", (1, 1, side, side)),
        ("samples", (side, side)),
    ):
        yield batch_norm_case(name, shape)


def _roi_align(cells: int) -> Iterator[Case]:
    def boxes(name: str, input: Shape, count: int, pooled: Shape, **attributes: int) -> Case:
        given = {"input_shape": input, "pooled_height": pooled[0], "pooled_width": pooled[1], **attributes}
        return case(name, given, grad_output=(count, input[1], *pooled), boxes=(count, 5))

    side = math.isqrt(cells)
    yield boxes("row", (1, 1, 1, cells), 3, (1, 1))
    yield boxes("row_of_channels", (1, 4, 1, cells // 4), 3, (1, 7))
    yield boxes("row_of_many_bins", (1, 1, 1, cells), 3, (1, cells // 3), sampling_ratio=2)
    yield boxes("column", (1, 1, cells, 1), 3, (1, 1))
    yield boxes("column_of_channels", (1, 4, cells // 4, 1), 3, (7, 1))
    yield boxes("column_of_many_bins", (1, 1, cells, 1), 3, (cells // 3, 1), sampling_ratio=2)
    yield boxes("plane", (1, 4, side // 2, side // 2), 30, (7, 7), sampling_ratio=2)
    yield boxes("overlapping", (1, 1, 64, 64), cells // 64, (1, 1), sampling_ratio=1)
    yield boxes("many_images", (cells // 4, 1, 2, 2), cells // 64, (1, 1), sampling_ratio=1)
    yield boxes("images_of_one_cell", (cells, 1, 1, 1), 1, (1, 1), sampling_ratio=1)


def _grid_sampler(axes: int) -> Callable[[int], Iterator[Case]]:
    def sampled(name: str, input: Shape, points: Shape) -> Case:
        """Of planes, or of volumes with a depth of 1."""
        ones = (1,) * (axes - 2)
        return grid_sampler_case(name, (*input[:2], *ones, *input[2:]), (*ones, *points), padding=1)

    def cases(cells: int) -> Iterator[Case]:
        counts = (("of_few_points", cells, 7), ("of_many_points", 7, cells), ("of_both", cells, cells))
        for name, count, points in counts:
            for way, place in _both_ways(name):
                yield sampled(way, (1, 1, *place(count, 1)), place(points, 1))
        side = math.isqrt(cells)
        yield sampled("plane", (1, 1, side, side), (side, side))
        yield sampled("plane_of_few_points", (1, 1, side, side), (2, 2))
        yield sampled("overlapping", (1, 1, 3, 3), (side, side))
        yield sampled("many_images", (cells // 4, 1, 2, 2), (1, 1))
        yield sampled("many_channels", (1, cells // 4, 2, 2), (1, 1))
        edge = round(cells ** (1 / 3))
        if axes == 3:
            yield grid_sampler_case("volume", (1, 1, edge, edge, edge), (edge, edge, edge), padding=1)

    return cases


def _elementwise(name: str) -> Callable[[int], Iterator[Case]]:
    def cases(cells: int) -> Iterator[Case]:
        side = math.isqrt(cells)
        for way, shape in (("row", (1, cells)), ("column", (cells, 1)), ("plane", (side, side))):
            picture = samples_of(name).picture
            yield replace(picture, name=way, shapes=dict.fromkeys(picture.shapes, shape))

    return cases


def _swi_glu(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    for name, shape, dim in (
        ("row", (1, cells), 1),
        ("column", (cells, 2), 1),
        ("plane", (side, side), 1),
        ("halves", (2, cells // 2), 0),
    ):
        yield swi_glu_case(
            name, tuple(each + each % 2 if place == dim else each for place, each in enumerate(shape)), dim
        )


_ELEMENTWISE = (
    "gelu_backward",
    "gelu_backward_v2",
    "hardswish_backward",
    "leaky_relu_backward",
    "sigmoid_backward",
    "silu_backward",
    "tanh_backward",
    "threshold_backward",
)
_CASES: Mapping[str, Callable[[int], Iterator[Case]]] = {
    **ROWS,
    "adaptive_avg_pool2d_backward": _adaptive(2),
    "adaptive_avg_pool3d_backward": _adaptive(3),
    "avg_pool2d_backward": _pooling(_average, 64),
    "grid_sampler2d_backward": _grid_sampler(2),
    "grid_sampler3d_backward": _grid_sampler(3),
    "batch_norm_backward": _batch_norm,
    "max_pool2d_with_indices_backward": _pooling(_max, 64),
    "max_pool2d_with_mask_backward": _pooling(_max, 64),
    "max_unpool2d_backward": _unpooling(2),
    "max_unpool3d_backward": _unpooling(3),
    "roi_align_v2_backward": _roi_align,
    "swi_glu_grad": _swi_glu,
    "upsample_nearest2d_backward": _upsampling,
    **{name: _elementwise(name) for name in _ELEMENTWISE},
    **{
        f"{rule}_pad{axes}d_backward": _pad(axes, rule == "reflection")
        for rule in ("reflection", "replication")
        for axes in (1, 2, 3)
    },
}
