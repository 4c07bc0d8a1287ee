"""Calls of avg_pool2d_backward."""

from collections.abc import Mapping
from typing import Any

from aclgrad.operators.avg_pool2d_backward.spec import CONVOLVING
from aclgrad.operators.families.pooling2d.samples import (
    GEOMETRIES,
    OVERLAPPING,
    Windows,
    draw_windows,
    long_windows,
    pooled_shape,
    timed,
)
from aclgrad.operators.samples import Case, Integer, Samples, case
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

_PRODUCTS = tuple(product for product in Product if product not in CONVOLVING)


def _case(
    name: str,
    input: tuple[int, ...],
    windows: Windows,
    products: tuple[Product, ...] = _PRODUCTS,
    only: tuple[str, ...] = (),
    **attributes: AttributeValue,
) -> Case:
    pooled = pooled_shape(input, {**windows, **attributes})
    return case(name, {**windows, **attributes}, products=products, only=only, grad_output=pooled, self=input)


def _draw(integer: Integer) -> Case:
    # Less than 10 cells high: over larger planes one window may not cover padding.
    return _case(
        "drawn",
        *draw_windows(integer, (9, 20)),
        count_include_pad=bool(integer(0, 1)),
        divisor_override=(0, 0, 1, -3, 7, 1000)[integer(0, 5)],
    )


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten.avg_pool2d_backward(
        tensors["grad_output"],
        tensors["self"],
        *[list(attributes[name]) for name in ("kernel_size", "stride", "padding")],
        *[attributes[name] for name in ("ceil_mode", "count_include_pad")],
        attributes["divisor_override"] or None,
    )


_HALF: Any = {"products": CONVOLVING, "only": ("float16",)}
_SINGLE: Any = {"products": CONVOLVING, "only": ("float32",), "cube_math_type": 1}
_PLANES = ((2, 3, 9, 10), OVERLAPPING)

SAMPLES = Samples(
    draw=_draw,
    timed=timed(lambda shape, windows: _case("timed", shape, windows)),
    pytorch=_pytorch,
    long=lambda cells: long_windows(cells, _case),
    picture=_case("picture", (1, 1, 5, 6), OVERLAPPING),
    cases=(
        *(_case(*geometry) for geometry in GEOMETRIES),
        _case("padding_not_counted", *_PLANES, count_include_pad=False),
        _case("divisor", *_PLANES, divisor_override=5),
        _case("negative_divisor", *_PLANES, divisor_override=-700),
        _case("ceil_mode_not_counted", (1, 2, 6, 6), OVERLAPPING, ceil_mode=True, count_include_pad=False),
        _case("many_windows_on_a_cell", (1, 2, 30, 40), {"kernel_size": (9, 11), "stride": (1,), "padding": (4, 5)}),
        _case("nine_by_two", (1, 2, 30, 40), {"kernel_size": (4, 7), "stride": (1, 2), "padding": (1, 3)}),
        _case("half", *_PLANES, only=("float32", "bfloat16"), cube_math_type=1),
        _case("hfloat32", *_PLANES, only=("float32", "bfloat16"), cube_math_type=3),
        _case("half_plane", (2, 3, 11, 12), {"kernel_size": (11, 12)}, only=("float32",), cube_math_type=1),
        _case("convolved", *_PLANES, **_HALF),
        _case("convolved_not_counted", *_PLANES, **_HALF, count_include_pad=False),
        _case("convolved_single", *_PLANES, **_SINGLE),
        _case("convolved_divisor", *_PLANES, **_SINGLE, divisor_override=254),
    ),
)
