"""Calls of max_pool2d_with_mask_backward."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad.masks import MaskLayout, Pooling, argmax_of_input, mask_of_argmax
from aclgrad.operators.max_pool2d_with_mask_backward.spec import MASK, SPEC
from aclgrad.operators.samples import PLANES, Arrays, Case, Integer, Samples, case, draw_leading, draw_sizes
from aclgrad.products import Product
from aclgrad.wire.messages import AttributeValue

_POOLED_PLANES: Final = 64
"""The indices of more planes repeat."""
_MAX_VALUE: Final = 65504


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """Pools integers that are all different, so that each index is the only one that a forward pass would choose."""
    shape = example.shapes["self"]
    planes = min(math.prod(shape[:-2]), _POOLED_PLANES)
    cells = generator.permutation(planes * shape[-2] * shape[-1])
    pooling = _pooling(shape, example.attributes)
    _, argmax = argmax_of_input(cells.reshape(planes, *shape[-2:]).astype(np.float64), pooling)
    indices = np.resize(argmax, (*shape[:-2], *pooling.output_size))
    form = example.fixed["indices"]
    indices = mask_of_argmax(indices, pooling, MaskLayout.INT32_PREFIX) if form == MASK else indices.astype(form)
    # No more than float16 holds; only timed cases have so many cells, and nothing reads theirs.
    input = np.minimum(cells, _MAX_VALUE).astype(arrays["self"].dtype)
    return {**arrays, "self": np.resize(input, shape), "indices": indices}


def _pooling(input: tuple[int, ...], attributes: Mapping[str, AttributeValue]) -> Pooling:
    given = {"stride": (), "padding": (0,), "ceil_mode": False, **attributes}
    height, width = input[-2:]
    return Pooling.of((height, width), **given)  # type: ignore[arg-type]


def _case(name: str, form: str, input: tuple[int, ...], **attributes: AttributeValue) -> Case:
    """A mask is one of the layout INT32_PREFIX, which the A2 and the A3 read."""
    pooling = _pooling(input, attributes)
    pooled = (*input[:-2], *pooling.output_size)
    return case(
        name,
        attributes,
        fixed={"indices": form},
        products=(Product.ATLAS_A2, Product.ATLAS_A3) if form == MASK else tuple(Product),
        in_pytorch=form != MASK,
        grad_output=pooled,
        input=input,
        indices=pooling.mask_shape(input[:-2]) if form == MASK else pooled,
    )


def _cases(name: str, input: tuple[int, ...], **attributes: AttributeValue) -> tuple[Case, ...]:
    """Returns the case with each form of the indices; 1x1 windows have a mask of another layout."""
    forms = SPEC.inputs[2].dtypes[Product.ATLAS_A2]
    has_prefix = _pooling(input, attributes).window_cells > 1
    return tuple(_case(f"{name}_{form}", form, input, **attributes) for form in forms if form != MASK or has_prefix)


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


def _rows(length: int) -> tuple[Case, ...]:
    windows = [(kernel, stride) for kernel, stride in ((3, 2), (2, 1), (1, 1)) if kernel <= length]
    return tuple(
        _case("rows", "int32", (1, 2, 5, length), kernel_size=(kernel,), stride=(stride,), padding=(kernel // 2,))
        for kernel, stride in windows
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
    rows=_rows,
    timed={
        size: _case("timed", "int32", shape, kernel_size=(3,), stride=(2,), padding=(1,))
        for size, shape in PLANES.items()
    },
    pytorch=_pytorch,
    values=_values,
    cases=(
        *_cases("overlapping", (2, 3, 9, 10), kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)),
        *_cases("stride_of_kernel", (2, 3, 8, 8), kernel_size=(2,)),
        *_cases("rank3", (5, 7, 9), kernel_size=(3, 2), stride=(2, 1)),
        *_cases("ceil_mode", (1, 4, 7, 8), kernel_size=(3, 3), stride=(2, 2), padding=(1, 0), ceil_mode=True),
        *_cases("ceil_mode_beyond_padding", (1, 2, 5, 5), kernel_size=(2,), stride=(3,), padding=(1,), ceil_mode=True),
        *_cases("dense", (1, 2, 6, 5), kernel_size=(3,), stride=(1,), padding=(1,)),
        *_cases("one_cell_windows", (2, 3, 4, 5), kernel_size=(1,), stride=(2,)),
        *_cases("global", (2, 3, 5, 6), kernel_size=(5, 6)),
        *_cases("gaps", (1, 3, 11, 13), kernel_size=(2, 2), stride=(4, 5)),
        *_cases("many_channels", (1, 35, 6, 6), kernel_size=(2, 2), stride=(2, 2)),
        *_cases("one_row", (2, 2, 1, 17), kernel_size=(1, 3), stride=(1, 2), padding=(0, 1)),
        *_cases("empty_batch", (0, 3, 6, 6), kernel_size=(2,)),
        # Around the cells of a band of sums, and more windows than are looked at together.
        _case("within_a_band", "int32", (1, 1, 181, 181), kernel_size=(3,), stride=(2,), padding=(1,)),
        _case("beyond_a_band", "int32", (1, 1, 182, 181), kernel_size=(3,), stride=(2,), padding=(1,)),
    ),
)
