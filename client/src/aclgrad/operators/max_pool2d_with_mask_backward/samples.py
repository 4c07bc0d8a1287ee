"""Calls of max_pool2d_with_mask_backward."""

import numpy as np

from aclgrad.masks import MaskLayout, mask_of_argmax
from aclgrad.operators.families.pooling2d.samples import (
    GEOMETRIES,
    OVERLAPPING,
    TIMED,
    Windows,
    distinct_cells,
    draw_windows,
    long_windows,
    pooled_shape,
    pooling_of,
    pytorch_max_pool,
    timed,
)
from aclgrad.operators.max_pool2d_with_mask_backward.spec import MASK, SPEC
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case
from aclgrad.products import Product


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    given = distinct_cells(generator, example, arrays)
    indices, form = given["indices"], example.fixed["indices"]
    if form == MASK:
        pooling = pooling_of(example.shapes["self"], example.attributes)
        return {**given, "indices": mask_of_argmax(indices, pooling, MaskLayout.INT32_PREFIX)}
    return {**given, "indices": indices.astype(form)}


def _case(name: str, form: str, input: tuple[int, ...], attributes: Windows) -> Case:
    """A mask is one of the layout INT32_PREFIX, which the A2 and the A3 read."""
    pooled = pooled_shape(input, attributes)
    return case(
        name,
        attributes,
        fixed={"indices": form},
        products=(Product.ATLAS_A2, Product.ATLAS_A3) if form == MASK else tuple(Product),
        in_pytorch=form != MASK,
        grad_output=pooled,
        self=input,
        indices=pooling_of(input, attributes).mask_shape(input[:-2]) if form == MASK else pooled,
    )


def _cases(name: str, input: tuple[int, ...], attributes: Windows) -> tuple[Case, ...]:
    """Returns the case with each form of the indices; 1x1 windows have a mask of another layout."""
    forms = SPEC.inputs[2].dtypes[Product.ATLAS_A2]
    has_prefix = pooling_of(input, attributes).window_cells > 1
    return tuple(_case(f"{name}_{form}", form, input, attributes) for form in forms if form != MASK or has_prefix)


def _draw(integer: Integer) -> Case:
    return _case("drawn", ("int64", "int32")[integer(0, 1)], *draw_windows(integer, (14, 14)))


def _rows(length: int) -> tuple[Case, ...]:
    windows = [(kernel, stride) for kernel, stride in ((3, 2), (2, 1), (1, 1)) if kernel <= length]
    return tuple(
        _case(
            "rows",
            "int32",
            (1, 2, 5, length),
            {"kernel_size": (kernel,), "stride": (stride,), "padding": (kernel // 2,)},
        )
        for kernel, stride in windows
    )


SAMPLES = Samples(
    draw=_draw,
    rows=_rows,
    timed=timed(lambda shape, windows: _case("timed", "int32", shape, windows)),
    pytorch=pytorch_max_pool,
    long=lambda cells: long_windows(cells, lambda name, *given: _case(name, "int32", *given)),
    values=_values,
    picture=_case("picture", "int64", (1, 1, 5, 6), OVERLAPPING),
    cases=(
        *(each for geometry in GEOMETRIES for each in _cases(*geometry)),
        # Around the cells of a band of sums, and more windows than are in one block.
        _case("within_a_band", "int32", (1, 1, 181, 181), TIMED),
        _case("beyond_a_band", "int32", (1, 1, 182, 181), TIMED),
    ),
)
