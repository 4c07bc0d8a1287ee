"""Calls of padding and of its gradients."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aclgrad.operators.families.pad.spec import DTYPES, REFLECTION, REPLICATION, sums_bfloat16
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_leading, draw_sizes

_WITH_EVERY_DTYPE = ("two_around", "wide_rows", "cropped_and_padded")
"""The other cases have one dtype that is summed as it is, and one that is widened."""

# A name, the leading sizes, then depth, height and width, and the padding left, right, top, bottom, front and back.
# Over fewer axes the last sizes and the first paddings count.
_BOTH = (
    ("two_around", (2, 3), (4, 8, 9), (2, 2, 2, 2, 2, 2)),
    ("without_batch", (4,), (3, 6, 5), (1, 2, 3, 4, 2, 1)),
    ("no_padding", (2, 3), (2, 4, 5), (0, 0, 0, 0, 0, 0)),
    ("left_only", (1, 2), (3, 5, 4), (3, 0, 0, 0, 0, 0)),
    ("right_only", (1, 2), (3, 5, 6), (0, 5, 0, 0, 0, 0)),
    ("before_only", (1, 2), (4, 5, 4), (1, 0, 4, 0, 3, 0)),
    ("after_only", (1, 2), (4, 8, 4), (0, 3, 0, 7, 0, 2)),
    ("one_cell_beyond", (2, 3), (2, 2, 2), (1, 1, 1, 1, 1, 1)),
    ("wide_rows", (1, 2), (1, 3, 40), (30, 21, 0, 0, 0, 0)),
    ("prime_sizes", (1, 5), (7, 17, 19), (3, 5, 2, 7, 5, 3)),
    ("many_planes", (9, 31), (2, 3, 3), (1, 2, 2, 1, 1, 0)),
    ("empty_batch", (0, 3), (4, 4, 4), (1, 1, 1, 1, 1, 1)),
)
_REPLICATED = (
    ("larger_than_self", (2, 2), (2, 2, 3), (7, 6, 5, 7, 4, 3)),
    ("one_cell", (1, 1), (1, 1, 1), (3, 2, 1, 4, 2, 2)),
    ("one_row", (2, 3), (3, 1, 9), (2, 1, 3, 3, 1, 0)),
    ("one_column", (2, 3), (1, 9, 1), (2, 1, 3, 3, 2, 2)),
    ("tall_padding", (1, 2), (3, 4, 4), (8, 9, 12, 10, 3, 9)),
)
_CROPPED = (
    ("cropped", (2, 3), (1, 8, 9), (-1, -2, -2, -1)),
    ("cropped_and_padded", (2, 3), (1, 5, 7), (-2, 3, 4, -1)),
    ("cropped_to_one_cell", (6,), (1, 6, 6), (-2, -3, -5, 0)),
    ("cropped_to_nothing", (1, 2), (1, 3, 4), (-2, -2, 1, 1)),
)
_PICTURES = {
    1: ((1, 1, 4), (2, 3)),
    2: ((1, 1, 3, 4), (2, 1, 1, 2)),
    3: ((1, 1, 2, 2, 2), (1, 0, 1, 0, 1, 0)),
}
_DRAWN = "drawn"


def pad_samples(rule: str, axes: int) -> Samples:
    """Returns the samples of `{rule}_pad{axes}d_backward`."""

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        backward = getattr(torch.ops.aten, f"{rule}_pad{axes}d_backward")
        return backward(tensors["grad_output"], tensors["self"], list(attributes["padding"]))

    return Samples(
        draw=lambda integer: _draw(integer, rule, axes),
        timed={size: _timed(rule, axes, shape) for size, shape in PLANES.items()},
        pytorch=pytorch,
        long=lambda cells: _long(cells, rule, axes),
        rows=lambda length: tuple(_rows(length, rule, axes)),
        picture=_case("picture", rule, *_PICTURES[axes]),
        cases=tuple(_cases(rule, axes)),
    )


def _cases(rule: str, axes: int) -> Iterator[Case]:
    rows: tuple[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]], ...] = _BOTH
    rows += () if rule == REFLECTION else _REPLICATED
    rows += () if axes == 3 else _CROPPED
    for name, leading, sizes, padding in rows:
        yield _case(name, rule, (*leading, *sizes[-axes:]), padding[: 2 * axes])


def _rows(length: int, rule: str, axes: int) -> Iterator[Case]:
    for padding in ((2, 3, 1, 2, 0, 0), (0, 0, 2, 0, 0, 0), (0, 1, 0, 0, 0, 0)):
        across = [min(each, length - 1) if rule == REFLECTION else each for each in padding[:2]]
        yield _case("rows", rule, (2, *(1, 4, length)[-axes:]), (*across, *padding[2 : 2 * axes]))


def _long(cells: int, rule: str, axes: int) -> Iterator[Case]:
    def padded(name: str, sizes: tuple[int, ...], padding: tuple[int, ...]) -> Case:
        return _case(name, rule, (1, 1, *((1, *sizes))[-axes:]), (*padding, 0, 0)[: 2 * axes])

    half = cells // 2
    ways = [
        ("by_few", cells, 2, 3),
        ("by_its_size", cells // 3, cells // 3 - 1, cells // 3 - 1),
        ("by_half", half, half // 2, half // 2),
    ]
    ways += [] if rule == REFLECTION else [("of_one_cell", 1, half, half), ("of_few_cells", 3, half, half)]
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


def _case(name: str, rule: str, input: tuple[int, ...], padding: tuple[int, ...]) -> Case:
    both = [before + after for before, after in zip(padding[::2], padding[1::2], strict=True)][::-1]
    padded = tuple(size + more for size, more in zip(input[-len(both) :], both, strict=True))
    dtypes = DTYPES if name in (*_WITH_EVERY_DTYPE, _DRAWN) else ("float32", "float16")
    only = tuple(each for each in dtypes if each != "bfloat16" or sums_bfloat16(rule, padding))
    return case(name, {"padding": padding}, only=only, grad_output=(*input[: -len(both)], *padded), self=input)


def _draw(integer: Integer, rule: str, axes: int) -> Case:
    sizes = draw_sizes(integer, axes, 1, (40, 12, 6)[axes - 1])
    crops = axes < 3 and bool(integer(0, 1))
    padding: list[int] = []
    for size in reversed(sizes):
        most = size - 1 if rule == REFLECTION else 9
        before, after = draw_sizes(integer, 2, -min(size - 1, 3) if crops else 0, most)
        # Both sides together leave at least one cell.
        padding += [before, max(after, 1 - size - before)]
    return _case(_DRAWN, rule, (*draw_leading(integer), *sizes), tuple(padding))


def _timed(rule: str, axes: int, shape: tuple[int, ...]) -> Case:
    """The cells of the shape as long rows, as planes, or as volumes that are as deep as their number."""
    batch, channels, height, width = shape
    depth = math.isqrt(channels)
    sizes = {1: (channels, height * width), 2: shape[1:], 3: (channels // depth, depth, height, width)}[axes]
    return _case("timed", rule, (batch, *sizes), (2,) * (2 * axes))


_FORWARD = {
    REFLECTION: ("up_to_the_other_border", (2, 3, 4, 5), (4, 4, 3, 3)),
    REPLICATION: ("larger_than_self", (2, 2, 2, 3), (7, 6, 5, 7)),
}


def forward_samples(rule: str) -> Samples:
    """Returns the samples of `{rule}_pad2d`."""

    def padded(name: str, shape: tuple[int, ...], padding: tuple[int, ...]) -> Case:
        dtypes = () if name in (*_WITH_EVERY_DTYPE, _DRAWN) else ("float32", "float16")
        return case(name, {"padding": padding}, only=dtypes, self=shape)

    def draw(integer: Integer) -> Case:
        sizes = draw_sizes(integer, 2, 1, 12)
        padding = [integer(0, size - 1 if rule == REFLECTION else 9) for size in reversed(sizes) for _ in range(2)]
        return padded(_DRAWN, (*draw_leading(integer), *sizes), tuple(padding))

    def rows(length: int) -> Iterator[Case]:
        for before, after in ((2, 3), (0, 0), (0, 1)):
            across = [min(each, length - 1) if rule == REFLECTION else each for each in (before, after)]
            yield padded("rows", (2, 3, length), (*across, 1, 2))

    def long(cells: int) -> Iterator[Case]:
        for name, size in (("by_few", cells), ("by_its_size", cells // 3)):
            before, after = (2, 3) if name == "by_few" else (size - 1, size - 1)
            yield padded(f"row_{name}", (1, 1, 1, size), (before, after, 0, 0))
            yield padded(f"column_{name}", (1, 1, size, 1), (0, 0, before, after))
        side = math.isqrt(cells)
        yield padded("plane", (1, 1, side, side), (1, 2, 3, 4))

    def pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        import torch

        return getattr(torch.ops.aten, f"{rule}_pad2d")(tensors["self"], list(attributes["padding"]))

    return Samples(
        draw=draw,
        rows=rows,
        timed={size: padded("timed", shape, (2, 2, 2, 2)) for size, shape in PLANES.items()},
        pytorch=pytorch,
        long=long,
        picture=padded("picture", *_PICTURES[2]),
        cases=(
            padded("two_around", (2, 3, 8, 9), (2, 2, 2, 2)),
            padded("without_batch", (4, 6, 5), (1, 2, 3, 4)),
            padded("rows_only", (2, 3, 4, 5), (0, 0, 2, 3)),
            padded(*_FORWARD[rule]),
            padded("prime_sizes", (1, 5, 17, 19), (3, 5, 2, 7)),
            padded("nothing", (0, 3, 4, 4), (1, 1, 1, 1)),
        ),
    )


SAMPLES: Final[Mapping[str, Samples]] = {
    **{f"{rule}_pad2d": forward_samples(rule) for rule in (REFLECTION, REPLICATION)},
    **{
        f"{rule}_pad{axes}d_backward": pad_samples(rule, axes)
        for rule in (REFLECTION, REPLICATION)
        for axes in (1, 2, 3)
    },
}
