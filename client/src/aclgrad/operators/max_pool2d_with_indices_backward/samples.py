"""Calls of max_pool2d_with_indices_backward."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.masks import Pooling, pair
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, case, draw_leading, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.messages import AttributeValue

_POOLED_PLANES: Final = 64
"""The indices of more planes repeat."""
_MAX_VALUE: Final = 65504


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Pools integers that are all different, so that each index is the only one that a forward pass would choose."""
    shape, pooled = example.shapes["self"], example.shapes["indices"]
    planes = min(math.prod(shape[:-2]), _POOLED_PLANES)
    cells = generator.permutation(planes * shape[-2] * shape[-1]).reshape(planes, *shape[-2:])
    indices = np.resize(_argmax(cells, pooled[-2:], example.attributes), pooled)
    # No more than float16 holds; only timed cases have so many cells, and nothing reads theirs.
    input = np.minimum(cells, _MAX_VALUE).astype(arrays["self"].dtype)
    return {**arrays, "self": np.resize(input, shape), "indices": indices.astype(example.fixed["indices"])}


def _argmax(planes: np.ndarray[Any, Any], size: tuple[int, ...], attributes: Mapping[str, AttributeValue]) -> Any:
    """Returns which cell of its plane is the largest of each window."""
    kernel, stride, padding, dilation = _windows(attributes)
    height, width = planes.shape[1:]
    best = np.full((len(planes), *size), -1)
    argmax = np.zeros(best.shape, np.int64)
    for row, column in np.ndindex(*kernel):
        y = np.arange(size[0])[:, None] * stride[0] - padding[0] + row * dilation[0]
        x = np.arange(size[1]) * stride[1] - padding[1] + column * dilation[1]
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        values = np.where(inside, planes[:, np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)], -1)
        argmax = np.where(values > best, y * width + x, argmax)
        best = np.maximum(best, values)
    return argmax


def _windows(attributes: Mapping[str, AttributeValue]) -> list[tuple[int, int]]:
    given: dict[str, Any] = {"stride": (), "padding": (0,), "dilation": (1,), **attributes}
    given["stride"] = given["stride"] or given["kernel_size"]
    return [pair(given[name]) for name in ("kernel_size", "stride", "padding", "dilation")]


def _case(
    name: str,
    form: str,
    input: tuple[int, ...],
    products: tuple[Product, ...] = tuple(Product),
    **attributes: AttributeValue,
) -> Case:
    kernel, stride, padding, dilation = _windows(attributes)
    spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
    size = Pooling.of(input[-2:], spans, stride, padding, bool(attributes.get("ceil_mode", False))).output_size
    pooled = (*input[:-2], *size)
    return case(
        name, attributes, fixed={"indices": form}, products=products, grad_output=pooled, input=input, indices=pooled
    )


def _draw(integer: Integer) -> Case:
    size = draw_sizes(integer, 2, 1, 14)
    kernel = (integer(1, min(5, size[0])), integer(1, min(5, size[1])))
    return _case(
        "drawn",
        ("int64", "int32")[integer(0, 1)],
        (*draw_leading(integer), *size),
        kernel_size=kernel,
        stride=draw_sizes(integer, 2, 1, 5),
        padding=(integer(0, kernel[0] // 2), integer(0, kernel[1] // 2)),
        ceil_mode=bool(integer(0, 1)),
    )


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    return torch.ops.aten.max_pool2d_with_indices_backward(
        tensors["grad_output"],
        tensors["self"],
        *[list(attributes[name]) for name in ("kernel_size", "stride", "padding", "dilation")],
        attributes["ceil_mode"],
        tensors["indices"].long(),
    )


SAMPLES = Samples(
    draw=_draw,
    timed={
        size: _case("timed", "int32", shape, kernel_size=(3,), stride=(2,), padding=(1,))
        for size, shape in PLANES.items()
    },
    pytorch=_pytorch,
    values=_values,
    cases=(
        _case("overlapping", "int64", (2, 3, 9, 10), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)),
        _case("overlapping_int32", "int32", (2, 3, 9, 10), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)),
        _case("stride_of_kernel", "int32", (2, 3, 8, 8), kernel_size=(2,)),
        _case("rank3", "int64", (5, 7, 9), kernel_size=(3, 2), stride=(2, 1)),
        _case("ceil_mode", "int64", (1, 4, 7, 8), kernel_size=(3, 3), stride=(2, 2), padding=(1, 0), ceil_mode=True),
        _case("beyond_padding", "int32", (1, 2, 5, 5), kernel_size=(2,), stride=(3,), padding=(1,), ceil_mode=True),
        _case("dense", "int64", (1, 2, 6, 5), kernel_size=(3,), stride=(1,), padding=(1,)),
        _case("one_cell_windows", "int64", (2, 3, 4, 5), kernel_size=(1,), stride=(2,)),
        _case("global", "int32", (2, 3, 5, 6), kernel_size=(5, 6)),
        _case("gaps", "int64", (1, 3, 11, 13), kernel_size=(2, 2), stride=(4, 5)),
        _case("many_channels", "int64", (1, 35, 6, 6), kernel_size=(2, 2), stride=(2, 2)),
        _case("one_row", "int32", (2, 2, 1, 17), kernel_size=(1, 3), stride=(1, 2), padding=(0, 1)),
        _case("empty_batch", "int64", (0, 3, 6, 6), kernel_size=(2,)),
        _case("dilated", "int64", (2, 3, 9, 11), (Product.ASCEND_950,), kernel_size=(3, 2), dilation=(2, 3)),
        _case(
            "dilated_and_dense",
            "int32",
            (1, 2, 8, 9),
            (Product.ASCEND_950,),
            kernel_size=(3,),
            stride=(1,),
            padding=(1,),
            dilation=(2,),
        ),
    ),
)
