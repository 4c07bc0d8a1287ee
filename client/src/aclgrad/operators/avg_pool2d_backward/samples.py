"""Calls of avg_pool2d_backward."""

from collections.abc import Mapping
from typing import Any

from aclgrad.masks import Pooling
from aclgrad.operators.avg_pool2d_backward.spec import CONVOLVING
from aclgrad.operators.samples import PLANES, Case, Integer, Samples, case, draw_leading, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.messages import AttributeValue

_PRODUCTS = tuple(product for product in Product if product not in CONVOLVING)


def _case(
    name: str,
    input: tuple[int, ...],
    products: tuple[Product, ...] = _PRODUCTS,
    only: tuple[str, ...] = (),
    **attributes: AttributeValue,
) -> Case:
    geometry: dict[str, Any] = {
        key: attributes[key] for key in ("kernel_size", "stride", "padding", "ceil_mode") if key in attributes
    }
    pooled = Pooling.of(input[-2:], **geometry).output_size
    return case(name, attributes, products=products, only=only, grad_output=(*input[:-2], *pooled), input=input)


def _draw(integer: Integer) -> Case:
    # Less than 10 cells high, where one window over all of a plane may cover padding.
    size = (integer(1, 9), integer(1, 20))
    kernel = (integer(1, min(5, size[0])), integer(1, min(5, size[1])))
    return _case(
        "drawn",
        (*draw_leading(integer), *size),
        kernel_size=kernel,
        stride=draw_sizes(integer, 2, 1, 5),
        padding=(integer(0, kernel[0] // 2), integer(0, kernel[1] // 2)),
        ceil_mode=bool(integer(0, 1)),
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
_WINDOWS: Any = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}

SAMPLES = Samples(
    draw=_draw,
    timed={size: _case("timed", shape, kernel_size=(3,), stride=(2,), padding=(1,)) for size, shape in PLANES.items()},
    pytorch=_pytorch,
    cases=(
        _case("overlapping", (2, 3, 9, 10), **_WINDOWS),
        _case("stride_of_kernel", (2, 3, 8, 8), kernel_size=(2,)),
        _case("rank3", (5, 7, 9), kernel_size=(3, 2), stride=(2, 1)),
        _case("padding_not_counted", (2, 3, 9, 10), **_WINDOWS, count_include_pad=False),
        _case("divisor", (2, 3, 9, 10), **_WINDOWS, divisor_override=5),
        _case("negative_divisor", (2, 3, 9, 10), **_WINDOWS, divisor_override=-700),
        _case("ceil_mode", (1, 4, 7, 8), kernel_size=(3, 3), stride=(2, 2), padding=(1, 0), ceil_mode=True),
        _case("beyond_padding", (1, 2, 5, 5), kernel_size=(2,), stride=(3,), padding=(1,), ceil_mode=True),
        _case("ceil_mode_not_counted", (1, 2, 6, 6), **_WINDOWS, ceil_mode=True, count_include_pad=False),
        _case("dense", (1, 2, 6, 5), kernel_size=(3,), stride=(1,), padding=(1,)),
        _case("many_windows_on_a_cell", (1, 2, 30, 40), kernel_size=(9, 11), stride=(1,), padding=(4, 5)),
        _case("nine_by_two", (1, 2, 30, 40), kernel_size=(4, 7), stride=(1, 2), padding=(1, 3)),
        _case("one_cell_windows", (2, 3, 4, 5), kernel_size=(1,), stride=(2,)),
        _case("global", (2, 3, 12, 16), kernel_size=(12, 16)),
        _case("gaps", (1, 3, 11, 13), kernel_size=(2, 2), stride=(4, 5)),
        _case("many_channels", (1, 35, 6, 6), kernel_size=(2, 2), stride=(2, 2)),
        _case("one_row", (2, 2, 1, 17), kernel_size=(1, 3), stride=(1, 2), padding=(0, 1)),
        _case("empty_batch", (0, 3, 6, 6), kernel_size=(2,)),
        _case("convolved", (2, 3, 9, 10), **_HALF, **_WINDOWS),
        _case("convolved_not_counted", (2, 3, 9, 10), **_HALF, **_WINDOWS, count_include_pad=False),
        _case("convolved_single", (2, 3, 9, 10), **_SINGLE, **_WINDOWS),
        _case("convolved_divisor", (2, 3, 9, 10), **_SINGLE, **_WINDOWS, divisor_override=254),
    ),
)
