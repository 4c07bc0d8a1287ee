"""Calls of grid sampling and of its gradients."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from aclgrad.operators.families.grid_sampler.spec import NEAREST, Padding
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, both_ways, case, draw_sizes

_MARGIN = 0.06
"""The least distance, in cells, of points from where they jump to other cells, so that rounding does not move them."""
_TRIES = 40
_TIMED_SCALE = 64


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Points in and around the image, or far away if the case's name says so."""
    grid = arrays["grid"]
    reach = 5.0 if "far" in example.name else 1.3
    sizes = np.array(example.shapes["input"][:1:-1])
    if "timed" in example.name:
        drawn = generator.uniform(-1, 1, grid.size).reshape(grid.shape)
        # Not drawn anew, which would take long: by twice the margin.
        points = (drawn + np.where(_near_jumps(drawn, sizes, example), 4 * _MARGIN / sizes, 0)).astype(grid.dtype)
        # The gradient of a point adds up all channels, times half the image's size: so does the rounding of its place,
        # for which the tolerance has a figure of small images.
        scaled = {"grad_output": arrays["grad_output"] / _TIMED_SCALE} if "grad_output" in arrays else {}
        return {**arrays, **scaled, "grid": points}
    points = np.zeros(grid.shape, grid.dtype)
    bad = np.ones(grid.shape, bool)
    for _ in range(_TRIES):
        points = np.where(bad, generator.uniform(-reach, reach, grid.shape), points).astype(grid.dtype)
        bad = _near_jumps(points.astype(np.float64), sizes, example)
        if not bad.any():
            break
    assert not bad.any()
    return {**arrays, "grid": points}


def _near_jumps(points: "np.ndarray[Any, Any]", sizes: "np.ndarray[Any, Any]", example: Case) -> Any:
    align = example.attributes["align_corners"]
    at = (points + 1) / 2 * (sizes - 1) if align else ((points + 1) * sizes - 1) / 2
    if example.attributes["interpolation_mode"] == NEAREST:
        at = at + 0.5
    # For one row or column, aligned corners leave a single place.
    return (np.abs(at - np.rint(at)) < _MARGIN) & ~((sizes == 1) & bool(align))


def grid_sampler_case(
    name: str,
    input: tuple[int, ...],
    points: tuple[int, ...],
    mode: int = 0,
    padding: int = Padding.ZEROS,
    align: bool = False,
) -> Case:
    """Returns a case of the input's and the points' shapes; the latter have no images and channels."""
    attributes = {"interpolation_mode": mode, "padding_mode": int(padding), "align_corners": align}
    grid = (input[0], *points, len(points))
    return case(name, attributes, grad_output=(*input[:2], *points), input=input, grid=grid)


# A name, images and channels, depth, height and width, those of the points, and the modes. For planes, the last sizes
# count.
_CASES: Final = (
    ("one_cell", (2, 3), (1, 1, 1), (2, 3, 4), (0, 0, False)),
    ("one_cell_border", (1, 2), (1, 1, 1), (2, 3, 4), (0, 1, False)),
    ("one_cell_reflection", (1, 2), (1, 1, 1), (2, 3, 4), (0, 2, False)),
    ("one_cell_aligned", (1, 2), (1, 1, 1), (2, 3, 4), (0, 2, True)),
    ("one_row", (1, 2), (1, 1, 9), (2, 3, 5), (0, 0, True)),
    ("one_column", (1, 2), (1, 9, 1), (2, 3, 5), (0, 1, False)),
    ("one_point", (2, 3), (3, 4, 5), (1, 1, 1), (0, 0, False)),
    ("one_channel", (3, 1), (4, 6, 5), (3, 7, 8), (0, 0, False)),
    ("many_channels", (2, 37), (3, 4, 5), (2, 3, 4), (0, 2, False)),
    ("many_points", (2, 3), (2, 4, 3), (2, 19, 23), (0, 0, False)),
    ("many_points_nearest", (1, 5), (2, 4, 3), (2, 19, 23), (NEAREST, 1, False)),
    ("many_images", (17, 2), (2, 3, 3), (2, 2, 2), (0, 1, False)),
    ("larger_image", (1, 2), (7, 17, 13), (2, 3, 3), (0, 0, False)),
    ("no_images", (0, 3), (3, 4, 4), (2, 5, 6), (0, 0, False)),
    ("no_channels", (2, 0), (3, 4, 4), (2, 5, 6), (0, 0, False)),
    ("no_points", (2, 3), (3, 4, 4), (2, 0, 6), (0, 0, False)),
)
_FORWARD: Final = (
    "bilinear_zeros",
    "bilinear_border_aligned",
    "bilinear_reflection_far",
    "nearest_zeros",
    "many_points",
    "no_points",
)
"""The cases of sampling itself: its gradients have more."""
_PICTURES: Final = {2: ((1, 1, 3, 4), (2, 3)), 3: ((1, 1, 2, 2, 3), (1, 2, 2))}


def _cases(axes: int) -> Iterator[Case]:
    for mode, kind in enumerate(("bilinear", "nearest")):
        for padding in Padding:
            for align in (False, True):
                name = f"{kind}_{padding.name.lower()}{'_aligned' * align}{'_far' * (padding is Padding.REFLECTION)}"
                yield grid_sampler_case(name, (2, 3, *(3, 5, 7)[-axes:]), (2, 4, 6)[-axes:], mode, padding, align)
    for name, leading, sizes, points, modes in _CASES:
        yield grid_sampler_case(name, (*leading, *sizes[-axes:]), points[-axes:], *modes)


def _draw(integer: Integer, axes: int) -> Case:
    most = {2: 9, 3: 5}[axes]
    return grid_sampler_case(
        "drawn" + ("", "_far")[integer(0, 1)],
        (integer(0, 3), integer(1, 18), *draw_sizes(integer, axes, 1, most)),
        draw_sizes(integer, axes, 0, most),
        integer(0, 1),
        integer(0, 2),
        bool(integer(0, 1)),
    )


def _rows(length: int, axes: int) -> tuple[Case, ...]:
    """Points and channels side by side."""
    points = grid_sampler_case("rows", (2, 3, *(2, 5, 6)[-axes:]), (1, 2, length)[-axes:])
    channels = grid_sampler_case("rows", (2, length, *(2, 3, 4)[-axes:]), (1, 2, 3)[-axes:], padding=Padding.BORDER)
    return points, channels


def _timed(shape: tuple[int, ...], axes: int) -> Case:
    """The cells of the shape as planes, or as volumes that are as deep as their number."""
    batch, channels, *plane = shape
    depth = {2: 1, 3: math.isqrt(channels)}[axes]
    sizes = (depth, *plane)[-axes:]
    return grid_sampler_case("timed", (batch, channels // depth, *sizes), sizes)


def _long(cells: int, axes: int) -> Iterator[Case]:
    def sampled(name: str, input: tuple[int, ...], points: tuple[int, ...]) -> Case:
        """Of planes, or of volumes with a depth of 1."""
        depth = (1,) * (axes - 2)
        shape = (*input[:2], *depth, *input[2:])
        return grid_sampler_case(name, shape, (*depth, *points), padding=Padding.BORDER)

    for name, count, points in (("of_few_points", cells, 7), ("of_many_points", 7, cells), ("of_both", cells, cells)):
        for way, place in both_ways(name):
            yield sampled(way, (1, 1, *place(count, 1)), place(points, 1))
    side, edge = math.isqrt(cells), round(cells ** (1 / 3))
    yield sampled("plane", (1, 1, side, side), (side, side))
    yield sampled("plane_of_few_points", (1, 1, side, side), (2, 2))
    yield sampled("overlapping", (1, 1, 3, 3), (side, side))
    yield sampled("many_images", (cells // 4, 1, 2, 2), (1, 1))
    yield sampled("many_channels", (1, cells // 4, 2, 2), (1, 1))
    if axes == 3:
        yield grid_sampler_case("volume", (1, 1, edge, edge, edge), (edge, edge, edge), padding=Padding.BORDER)


def grid_sampler_samples(axes: int) -> Samples:
    """Returns the samples of `grid_sampler{axes}d_backward`."""

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        names = ("interpolation_mode", "padding_mode", "align_corners")
        backward = getattr(torch.ops.aten, f"grid_sampler_{axes}d_backward")
        given = (tensors[name] for name in ("grad_output", "input", "grid"))
        return backward(*given, *(attributes[name] for name in names), [True, True])

    return Samples(
        draw=lambda integer: _draw(integer, axes),
        rows=lambda length: _rows(length, axes),
        timed={size: _timed(shape, axes) for size, shape in PLANES.items()},
        pytorch=pytorch,
        long=lambda cells: _long(cells, axes),
        values=_values,
        picture=grid_sampler_case("picture", *_PICTURES[axes]),
        cases=tuple(_cases(axes)),
    )


def _forward(gradient: Case) -> Case:
    """Returns the call of which the other is one of the gradient."""
    shapes = {name: gradient.shapes[name] for name in ("input", "grid")}
    return replace(gradient, shapes=shapes)


def forward_samples() -> Samples:
    """Returns the samples of `grid_sampler2d`: calls of its gradient without the gradient."""

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        names = ("interpolation_mode", "padding_mode", "align_corners")
        return torch.ops.aten.grid_sampler_2d(tensors["input"], tensors["grid"], *(attributes[name] for name in names))

    gradients = grid_sampler_samples(2)
    assert gradients.picture is not None
    return replace(
        gradients,
        draw=lambda integer: _forward(gradients.draw(integer)),
        rows=lambda length: tuple(map(_forward, gradients.rows(length))),
        timed={size: _forward(each) for size, each in gradients.timed.items()},
        pytorch=pytorch,
        long=lambda cells: map(_forward, gradients.long(cells)),
        picture=_forward(gradients.picture),
        cases=tuple(_forward(each) for each in gradients.cases if each.name in _FORWARD),
    )


SAMPLES: Final[Mapping[str, Samples]] = {
    "grid_sampler2d": forward_samples(),
    **{f"grid_sampler{axes}d_backward": grid_sampler_samples(axes) for axes in (2, 3)},
}
