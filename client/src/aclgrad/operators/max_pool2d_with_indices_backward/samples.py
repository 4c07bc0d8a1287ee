"""Calls of max_pool2d_with_indices_backward."""

import numpy as np

from aclgrad.operators.families.pooling2d.samples import (
    GEOMETRIES,
    OVERLAPPING,
    Windows,
    distinct_cells,
    draw_windows,
    long_windows,
    pooled_shape,
    pytorch_max_pool,
    timed,
)
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case
from aclgrad.products import Product


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    given = distinct_cells(generator, example, arrays)
    return {**given, "indices": given["indices"].astype(example.fixed["indices"])}


FORMS = ("int64", "int32")


def _case(name: str, form: str, input: tuple[int, ...], attributes: Windows, *products: Product) -> Case:
    pooled = pooled_shape(input, attributes)
    return case(
        name,
        attributes,
        fixed={"indices": form},
        products=products or tuple(Product),
        grad_output=pooled,
        self=input,
        indices=pooled,
    )


def _draw(integer: Integer) -> Case:
    return _case("drawn", FORMS[integer(0, 1)], *draw_windows(integer, (14, 14)))


_DILATED: Windows = {"kernel_size": (3, 2), "dilation": (2, 3)}
_DILATED_AND_DENSE: Windows = {"kernel_size": (3,), "stride": (1,), "padding": (1,), "dilation": (2,)}

SAMPLES = Samples(
    draw=_draw,
    timed=timed(lambda shape, windows: _case("timed", "int32", shape, windows)),
    pytorch=pytorch_max_pool,
    long=lambda cells: long_windows(cells, lambda name, *given: _case(name, "int32", *given)),
    values=_values,
    picture=_case("picture", "int64", (1, 1, 5, 6), OVERLAPPING),
    cases=(
        *(
            _case(name, ("int64", "int32")[at % 2], shape, windows)
            for at, (name, shape, windows) in enumerate(GEOMETRIES)
        ),
        _case("overlapping_int32", "int32", (2, 3, 9, 10), OVERLAPPING),
        _case("dilated", "int64", (2, 3, 9, 11), _DILATED, Product.ASCEND_950),
        _case("dilated_and_dense", "int32", (1, 2, 8, 9), _DILATED_AND_DENSE, Product.ASCEND_950),
    ),
)
