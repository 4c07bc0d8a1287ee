"""Calls of group_norm_backward."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from aclgrad.operators.group_norm_backward.definition import EPSILON
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, draw_sizes, long_rows
from aclgrad.products import Product

_PLANES = {"16 KB": (1, 16, 16, 16), "6 MB": (8, 64, 56, 56), "100 MB": (32, 256, 56, 56), "1 GB": (320, 256, 56, 56)}


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The mean and the deviation are those of the groups."""
    mean, input = arrays["mean"], arrays["input"]
    if not input.size:
        return arrays
    groups = input.reshape(mean.size, -1).astype(np.float64)
    saved = {"mean": groups.mean(1), "rstd": 1 / np.sqrt(groups.var(1) + EPSILON)}
    return arrays | {name: each.reshape(mean.shape).astype(mean.dtype) for name, each in saved.items()}


def group_norm_case(
    name: str,
    shape: tuple[int, ...],
    group: int,
    *,
    gamma: bool = True,
    fixed: str = "",
    products: tuple[Product, ...] = tuple(Product),
) -> Case:
    """Returns a case; `fixed` names what is float32."""
    shapes: dict[str, tuple[int, ...]] = {"grad_output": shape, "input": shape}
    shapes |= dict.fromkeys(("mean", "rstd"), (shape[0], group))
    shapes |= {"gamma": shape[1:2]} if gamma else {}
    return Case(
        name=name,
        shapes=shapes,
        attributes={"n": shape[0], "c": shape[1], "hxw": math.prod(shape[2:]), "group": group},
        fixed=dict.fromkeys(fixed.split(), "float32"),
        only=(),
        products=products,
        in_pytorch=math.prod(shape) > 0,
    )


def _draw(integer: Integer) -> Case:
    group = integer(1, 4)
    shape = (integer(1, 3), group * integer(1, 4), *draw_sizes(integer, integer(0, 2), 1, 12))
    return group_norm_case("drawn", shape, group, gamma=bool(integer(0, 1)))


def _long(cells: int) -> Iterator[Case]:
    for name, rows, columns in long_rows(cells):
        yield group_norm_case(f"{name}_of_channels", (1, rows, columns), 1)
        yield group_norm_case(f"{name}_of_samples", (rows, 1, columns), 1)


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    names = ("grad_output", "input", "mean", "rstd", "gamma")
    sizes = (attributes[each] for each in ("n", "c", "hxw", "group"))
    backward = torch.ops.aten.native_group_norm_backward
    return backward(*map(tensors.get, names), *sizes, [True, True, True])


SAMPLES = Samples(
    draw=_draw,
    rows=lambda length: (group_norm_case("rows", (2, 4, length), 2), group_norm_case("rows", (3, 6, length), 3)),
    timed={size: group_norm_case("timed", shape, 8) for size, shape in _PLANES.items()},
    pytorch=_pytorch,
    long=_long,
    values=_values,
    has_signed_weights=True,
    picture=group_norm_case("picture", (1, 2, 2, 3), 1),
    cases=(
        group_norm_case("planes", (2, 6, 5, 7), 3),
        group_norm_case("no_gamma", (2, 4, 9), 2, gamma=False),
        group_norm_case("one_group", (3, 5, 4), 1),
        group_norm_case("a_group_for_each_channel", (2, 3, 11), 3),
        group_norm_case("samples_of_one_element", (7, 48), 2),
        group_norm_case("one_sample", (1, 2, 33), 2),
        group_norm_case("large_groups", (2, 20, 4000), 1),
        group_norm_case("large_channels", (1, 2, 9000), 1),
        group_norm_case("large_groups_of_short_channels", (2, 1700, 40), 1),
        group_norm_case("eight_dimensions", (2, 4, 1, 2, 1, 3, 1, 2), 2),
        group_norm_case("float32_parameters", (2, 4, 12), 2, fixed="mean rstd gamma", products=(Product.ASCEND_950,)),
        group_norm_case("no_samples", (0, 4, 3), 2),
        group_norm_case("no_area", (2, 4, 0), 2),
    ),
)
