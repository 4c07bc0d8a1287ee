"""Average pooling through a cube unit: its own roundings, computed here by brute force, pass; larger errors fail."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.judge.findings.comparison import against_truth
from aclgrad.judge.findings.rows import Verdict
from aclgrad.masks import Pooling
from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.families.pooling2d.definition import windows
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from aclgrad.tolerances import tolerance_of

Array = np.ndarray[Any, Any]
ADAPTIVE, AVERAGE = "adaptive_avg_pool2d", "avg_pool2d"
P310, P910A, A2, P950 = (
    Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING, Product.ATLAS_A2, Product.ASCEND_950,
)  # fmt: skip


def half(values: Any) -> Array:
    return np.asarray(values, np.float16).astype(np.float32)


def by_windows(typed: TypedCase) -> Array:
    """Multiplies windows by one weight, or by 1 to divide the sums by the cells that are no padding."""
    attributes: dict[str, Any] = typed.attributes
    input = half(typed.arrays()["self"])
    pooling = Pooling.of(
        input.shape[-2:], *(attributes[each] for each in ("kernel_size", "strides", "paddings", "ceil_mode"))
    )
    divisor = attributes["divisor_override"] or pooling.window_cells
    if attributes["count_include_pad"] or attributes["divisor_override"]:
        return half((windows(input, pooling, 0, 0) * half(1 / divisor)).sum((-2, -1), dtype=np.float32))
    counts = windows(np.ones(pooling.input_size), pooling, 0, 0).sum((-2, -1))
    return half(half(windows(input, pooling, 0, 0).sum((-2, -1), dtype=np.float32)) / half(counts))


def by_matrices(typed: TypedCase) -> Array:
    """Adds up by a matrix of zeros and ones for each axis, and multiplies by the reciprocals of the areas."""
    own = half if typed.dtype == "float16" else np.float32
    input: Array = half(typed.arrays()["self"])
    sizes: Any = zip(input.shape[-2:], typed.attributes["output_size"], strict=True)
    rows, columns = (
        np.array([[i * n // m <= j < -(-(i + 1) * n // m) for j in range(n)] for i in range(m)], np.float32)
        for n, m in sizes
    )
    sums = half(half(rows @ input) @ columns.T)
    return own(sums * own(1 / np.outer(rows.sum(1), columns.sum(1))))


def taken(product: Product) -> Iterator[tuple[Product, TypedCase]]:
    """Yields the calls of which a product rounds more than the result."""
    for name in (ADAPTIVE, AVERAGE):
        for case in samples_of(name).cases:
            for dtype in served_dtypes(OPERATORS[name], case, product):
                typed = TypedCase(OPERATORS[name], case, dtype)
                if typed.tolerance(product).route is not None:
                    yield product, typed


TAKEN = [each for product in (P310, P910A, A2) for each in taken(product)]


def verdict(typed: TypedCase, product: Product, result: Array) -> Verdict:
    inputs, name = typed.arrays(), typed.spec.name
    truth = reference.define(name, inputs, typed.attributes)
    return against_truth(result, truth, tolerance_of(OPERATORS[name], product, inputs, typed.attributes)).verdict


@pytest.mark.parametrize(("product", "typed"), TAKEN, ids=lambda each: str(each))
def test_the_roundings_of_a_route_pass_there_alone(product: Product, typed: TypedCase) -> None:
    result = by_windows(typed) if typed.spec.name == AVERAGE else by_matrices(typed)
    result = result.astype(typed.outputs["out"].dtype.numpy)
    assert verdict(typed, product, result) is Verdict.PASSED
    if typed.dtype == "float32":
        assert verdict(typed, P950, result) is Verdict.FAILED


@pytest.mark.parametrize(("product", "typed"), TAKEN, ids=lambda each: str(each))
def test_a_larger_error_fails_there(product: Product, typed: TypedCase) -> None:
    """Relative to the sum of |terms|, of which the tolerance may be twice."""
    route = typed.tolerance(product).route
    if typed.dtype != "float32" or route is None:
        return
    inputs = typed.arrays()
    truth, sums = (
        reference.define(typed.spec.name, {"self": each}, typed.attributes)
        for each in (inputs["self"], np.abs(inputs["self"]))
    )
    cell = int(np.argmax(np.abs(sums)))
    wrong = truth.copy()
    wrong.flat[cell] += 2.1 * (route.relative * abs(sums.flat[cell]) + route.absolute) + typed.tolerance(P950).absolute
    assert verdict(typed, product, wrong) is Verdict.FAILED


def test_every_product_that_multiplies_in_half_is_here() -> None:
    found = {(product, typed.spec.name) for product, typed in TAKEN}
    assert found == {(P310, AVERAGE), (P910A, AVERAGE), (P910A, ADAPTIVE), (A2, AVERAGE)}
