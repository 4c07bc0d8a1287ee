"""Calls of grid_sampler2d_backward."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from aclgrad.operators.grid_sampler2d_backward.spec import NEAREST, Padding
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, draw_sizes
from aclgrad.products import Product

_MARGIN = 0.06
"""The least distance, in cells, of points from where they jump to other cells, so that rounding does not move them."""
_TRIES = 40
_TIMED_SCALE = 64


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Points in and around the image, or far away if the case's name says so."""
    grid = arrays["grid"]
    reach = 5.0 if "far" in example.name else 1.3
    if "timed" in example.name:
        points = generator.uniform(-1, 1, grid.size).reshape(grid.shape).astype(grid.dtype)
        # The gradient of a point adds up all channels, times half the image's size: so does the rounding of its place,
        # for which the tolerance has a figure of small images.
        return {**arrays, "grid": points, "grad_output": arrays["grad_output"] / _TIMED_SCALE}
    sizes = np.array(example.shapes["input"][:1:-1])
    points = np.zeros(grid.shape, grid.dtype)
    bad = np.ones(grid.shape, bool)
    for _ in range(_TRIES):
        points = np.where(bad, generator.uniform(-reach, reach, grid.shape), points).astype(grid.dtype)
        bad = _near_jumps(points.astype(np.float64), sizes, example)
    assert not bad.any()
    return {**arrays, "grid": points}


def _near_jumps(points: "np.ndarray[Any, Any]", sizes: "np.ndarray[Any, Any]", example: Case) -> Any:
    align = example.attributes["align_corners"]
    at = (points + 1) / 2 * (sizes - 1) if align else ((points + 1) * sizes - 1) / 2
    if example.attributes["interpolation_mode"] == NEAREST:
        at = at + 0.5
    # For one row or column, aligned corners leave a single place.
    return (np.abs(at - np.rint(at)) < _MARGIN) & ~((sizes == 1) & bool(align))


def _case(
    name: str,
    input: tuple[int, ...],
    points: tuple[int, ...],
    mode: int = 0,
    padding: int = 0,
    align: bool = False,
    only: tuple[str, ...] = (),
) -> Case:
    attributes = {"interpolation_mode": mode, "padding_mode": int(padding), "align_corners": align}
    shapes = {"grad_output": (*input[:2], *points), "input": input, "grid": (input[0], *points, 2)}
    return Case(name, shapes, attributes, {}, only, tuple(Product), in_pytorch=True)


def _draw(integer: Integer) -> Case:
    return _case(
        "drawn" + ("", "_far")[integer(0, 1)],
        (integer(0, 3), integer(1, 18), *draw_sizes(integer, 2, 1, 9)),
        draw_sizes(integer, 2, 0, 9),
        integer(0, 1),
        integer(0, 2),
        bool(integer(0, 1)),
    )


def _rows(length: int) -> tuple[Case, ...]:
    """Points and channels side by side."""
    return _case("rows", (2, 3, 5, 6), (2, length)), _case("rows", (2, length, 3, 4), (2, 3), padding=1)


def _timed(shape: tuple[int, ...]) -> Case:
    return _case("timed", shape, shape[2:])


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    names = ("interpolation_mode", "padding_mode", "align_corners")
    return torch.ops.aten.grid_sampler_2d_backward(
        *(tensors[name] for name in ("grad_output", "input", "grid")),
        *(attributes[name] for name in names),
        [True, True],
    )


_MODES = tuple(
    _case(
        f"{kind}_{padding.name.lower()}" + ("_aligned" if align else "") + "_far" * (padding is Padding.REFLECTION),
        (2, 3, 5, 7),
        (4, 6),
        mode,
        padding,
        align,
    )
    for mode, kind in enumerate(("bilinear", "nearest"))
    for padding in Padding
    for align in (False, True)
)

SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed={size: _timed(shape) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    values=_values,
    picture=_case("picture", (1, 1, 3, 4), (2, 3)),
    cases=(
        *_MODES,
        _case("one_cell", (2, 3, 1, 1), (3, 4)),
        _case("one_cell_border", (1, 2, 1, 1), (3, 4), padding=1),
        _case("one_cell_reflection", (1, 2, 1, 1), (3, 4), padding=2),
        _case("one_cell_aligned", (1, 2, 1, 1), (3, 4), padding=2, align=True),
        _case("one_row", (1, 2, 1, 9), (3, 5), align=True),
        _case("one_column", (1, 2, 9, 1), (3, 5), padding=1),
        _case("one_point", (2, 3, 4, 5), (1, 1)),
        _case("one_channel", (3, 1, 6, 5), (7, 8)),
        _case("many_channels", (2, 37, 4, 5), (3, 4), padding=2),
        _case("many_points", (2, 3, 4, 3), (19, 23)),
        _case("many_points_nearest", (1, 5, 4, 3), (19, 23), mode=1, padding=1),
        _case("many_images", (17, 2, 3, 3), (2, 2), padding=1),
        _case("larger_image", (1, 2, 17, 13), (3, 3)),
        _case("no_images", (0, 3, 4, 4), (5, 6)),
        _case("no_channels", (2, 0, 4, 4), (5, 6)),
        _case("no_points", (2, 3, 4, 4), (0, 6)),
    ),
)
