"""aclnnMaxPool2dWithIndicesBackward over small windows, on indices that are right and on any others."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from aclgrad.masks import Pooling
from aclgrad.operators.cases import TypedCase
from aclgrad.products import Product
from tools.abi.acl import Library

from .programs_in_forks import call_of
from .table_gradients import call, described, placed, unwritten

Array = np.ndarray[Any, Any]

WIDTHS = (*range(15, 19), *range(30, 36), 63, 64, 65, 129, 255, 256, 257, 515, 1030)
"""Of planes: around the vectors, and around the tiles of up to 512 cells."""
HEIGHTS = (1, 2, 3, 5, 8, 40)
PLANES = 3


def poolings() -> Iterator[Pooling]:
    """Yields windows of each small size over planes of each width; some leave cells between them."""
    integers = np.random.default_rng(0).integers
    for width in WIDTHS:
        for rows, columns in np.ndindex(3, 3):
            height = HEIGHTS[integers(len(HEIGHTS))]
            kernel = (min(rows + 1, height), columns + 1)
            stride = (int(integers(1, 5)), int(integers(1, 4)))
            padding = (int(integers(kernel[0] // 2 + 1)), int(integers(kernel[1] // 2 + 1)))
            yield Pooling((height, width), kernel, stride, padding, bool(integers(2)))


def indices_of(pooling: Pooling, dtype: str, generator: np.random.Generator) -> Array:
    """Returns cells of each window, or of the padding beside it, and here and there a position that is not its own."""
    (height, width), shape = pooling.input_size, (PLANES, *pooling.output_size)
    cells = [
        np.arange(shape[axis + 1]).reshape((-1, 1) if axis == 0 else (1, -1)) * pooling.stride[axis]
        - pooling.padding[axis]
        + generator.integers(pooling.kernel_size[axis], size=shape)
        for axis in (0, 1)
    ]
    own = cells[0] * width + cells[1]
    limits = np.iinfo(dtype)
    others = [-1, 0, 1, width, height * width - 1, height * width, limits.min, limits.max]
    if dtype == "int64":
        others += [2**32, 2**32 + width, -(2**32)]
    strange = np.where(generator.random(shape) < 0.5, generator.choice(others, shape), own + generator.integers(-3, 4))
    return np.where(generator.random(shape) < 0.3, strange, own).astype(dtype)


def expected_gradient(pooling: Pooling, grad: Array, indices: Array) -> Array:
    """Adds each gradient to the cell that its window chose, if that lies in the window and on the plane."""
    places = np.moveaxis(np.indices(indices.shape), 0, -1)
    cells = np.stack(np.divmod(indices.astype(np.int64), pooling.input_size[1]), -1)
    firsts = places[..., 1:] * pooling.stride - pooling.padding
    legal = (cells >= np.maximum(firsts, 0)) & (cells < np.minimum(firsts + pooling.kernel_size, pooling.input_size))
    chosen = legal.all(-1)
    result = np.zeros((PLANES, *pooling.input_size))
    np.add.at(result, (places[chosen, 0], *cells[chosen].T), grad.astype(np.float64)[chosen])
    return result


def computed(acl: Library, typed: TypedCase, product: Product, grad: Array, indices: Array) -> Array:
    """Runs the call on memory that begins at any byte."""
    (type,) = typed.outputs.values()
    out = placed(unwritten(type), 1)
    memory = {"gradOutput": placed(grad, 3), "self": out, "indices": placed(indices, 5), "gradInput": out}
    with described(acl, typed, memory, product) as given:
        size, executor = acl.plan(typed.spec.symbol, *given)
        workspace = np.zeros(size, np.uint8)
        acl.call(typed.spec.symbol, workspace.ctypes.data if size else None, size, executor, None)
        acl.call("aclrtSynchronizeStream", None)
    return out


def check(acl: Library, product: str, dtype: str, index_dtype: str) -> None:
    """Prints the calls that fail, and the number of all."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    generator, count = np.random.default_rng(1), 0
    for pooling in poolings():
        if min(pooling.output_size) < 1:
            continue
        pooled = (PLANES, *pooling.output_size)
        typed = call(
            "max_pool2d_with_indices_backward", dtype, fixed={"indices": index_dtype},
            grad_output=pooled, self=(PLANES, *pooling.input_size), indices=pooled, kernel_size=pooling.kernel_size,
            stride=pooling.stride, padding=pooling.padding, ceil_mode=pooling.ceil_mode,
        )  # fmt: skip
        (type,) = typed.outputs.values()
        grad = generator.integers(-9, 9, pooled).astype(type.dtype.numpy)  # whose sums are exact
        indices = indices_of(pooling, index_dtype, generator)
        found = computed(acl, typed, Product(product), grad, indices)
        if not np.array_equal(found.astype(np.float64), expected_gradient(pooling, grad, indices)):
            print(pooling)
        count += 1
    print(count)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("product", "dtype", "index_dtype"),
    [
        (Product.ATLAS_A2, "float32", "int32"),
        (Product.ASCEND_950, "float16", "int64"),
        (Product.ASCEND_950, "bfloat16", "int32"),
    ],
)
def test_gradients_go_to_the_cells_that_their_windows_chose(
    run_program: Callable[..., list[str]], vector_levels: list[str], product: Product, dtype: str, index_dtype: str
) -> None:
    for level in vector_levels:
        config = {"product": product, "vector_level": level, "threads": 2}
        *failed, count = run_program(call_of(check, str(product), dtype, index_dtype), config)
        assert failed == [], level
        assert int(count) > 150
