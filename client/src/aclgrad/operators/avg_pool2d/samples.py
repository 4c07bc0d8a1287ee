"""Calls of avg_pool2d."""

from collections.abc import Mapping
from typing import Any, Final

from aclgrad.operators.avg_pool2d.spec import CONVOLVING
from aclgrad.operators.families.pooling2d.samples import (
    GEOMETRIES,
    OVERLAPPING,
    Windows,
    draw_windows,
    long_windows,
    timed,
)
from aclgrad.operators.samples import Case, Integer, Samples, case
from aclgrad.products import Product
from aclgrad.wire.values import AttributeValue

_PRODUCTS: Final = tuple(product for product in Product if product not in CONVOLVING)
_PLURALS: Final = {"stride": "strides", "padding": "paddings"}
_FEW: Final = ("overlapping", "rank3", "beyond_padding", "global", "gaps", "empty_batch")


def _case(
    name: str,
    input: tuple[int, ...],
    windows: Windows,
    products: tuple[Product, ...] = _PRODUCTS,
    only: tuple[str, ...] = (),
    **attributes: AttributeValue,
) -> Case:
    named = {_PLURALS.get(name, name): value for name, value in {**windows, **attributes}.items()}
    return case(name, named, products=products, only=only, self=input)


def _draw(integer: Integer) -> Case:
    return _case(
        "drawn",
        *draw_windows(integer, (14, 14)),
        count_include_pad=bool(integer(0, 1)),
        divisor_override=(0, 0, 1, -3, 7, 1000)[integer(0, 5)],
    )


def _rows(length: int) -> tuple[Case, ...]:
    windows = [(kernel, stride) for kernel, stride in ((3, 2), (2, 1), (5, 3), (7, 6)) if kernel <= length]
    return tuple(
        _case("rows", (1, 2, 5, length), {"kernel_size": (2, kernel), "stride": (stride,), "padding": (1, kernel // 2)})
        for kernel, stride in windows
    )


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten.avg_pool2d(
        tensors["self"],
        *[list(attributes[name]) for name in ("kernel_size", "strides", "paddings")],
        *[attributes[name] for name in ("ceil_mode", "count_include_pad")],
        attributes["divisor_override"] or None,
    )


_PLANES: Final = ((2, 3, 9, 10), OVERLAPPING)

SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed=timed(lambda shape, windows: _case("timed", shape, windows)),
    pytorch=_pytorch,
    long=lambda cells: long_windows(cells, _case),
    picture=_case("picture", (1, 1, 5, 6), OVERLAPPING),
    cases=(
        *(_case(*each) for each in GEOMETRIES if each[0] in _FEW),
        _case("padding_not_counted", *_PLANES, count_include_pad=False),
        _case("divisor", *_PLANES, divisor_override=-700),
        _case("half", *_PLANES, only=("float32", "bfloat16"), cube_math_type=2),
        _case("half_plane", (2, 3, 11, 12), {"kernel_size": (11, 12)}, only=("float32",), cube_math_type=2),
        _case("convolved", *_PLANES, products=CONVOLVING, only=("float16",), count_include_pad=False),
        _case("convolved_single", *_PLANES, products=CONVOLVING, only=("float32",), cube_math_type=1),
    ),
)
