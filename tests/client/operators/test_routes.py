"""The limits of routes through a cube unit hold for their own roundings, computed here by brute force, and for no other
product."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.judge.findings.comparison import against_truth
from aclgrad.judge.findings.rows import Verdict
from aclgrad.masks import Pooling
from aclgrad.operators.cases import TypedCase, served_dtypes
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.parts import samples_of
from aclgrad.products import Product
from aclgrad.tolerances import tolerance_of

Array = np.ndarray[Any, Any]
A2, A3, P950 = Product.ATLAS_A2, Product.ATLAS_A3, Product.ASCEND_950
P310, P910A = Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING
COARSE = [
    *((f"grid_sampler{axes}d_backward", P950) for axes in (2, 3)),
    *((name, P910A) for name in ("max_pool2d_with_mask_backward", "group_norm_backward")),
    *((name, product) for name in ("glu_backward", "kl_div_backward") for product in (A2, A3)),
]
"""The operators that products compute in less than the dtype without a cube unit."""
ADAPTIVE, AVERAGE = "adaptive_avg_pool2d_backward", "avg_pool2d_backward"
FORWARD = ("adaptive_avg_pool2d", "avg_pool2d")
"""See test_forward_routes.py."""


def half(values: Any) -> Array:
    return np.asarray(values, np.float16).astype(np.float32)


def hfloat32(values: Any) -> Array:
    """Rounds to 1 + 11 bits by plain arithmetic."""
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    return np.ldexp(np.round(mantissa * 2**12), exponent - 12).astype(np.float32)


def single(values: Any) -> Array:
    return np.asarray(values, np.float32)


def by_matrices(typed: TypedCase) -> Array:
    """Multiplies by the reciprocals of the areas, and by a matrix of zeros and ones for each axis."""
    inputs = typed.arrays()
    own = half if typed.dtype == "float16" else single
    sizes, counts = inputs["self"].shape[-2:], inputs["grad_output"].shape[-2:]
    matrices = []
    for size, count in zip(sizes, counts, strict=True):
        matrices.append(np.zeros((count, size), np.float32))
        for index in range(count):
            matrices[-1][index, index * size // count : -(-(index + 1) * size // count)] = 1
    rows, columns = matrices
    weights = own(1 / single(np.outer(rows.sum(1), columns.sum(1))))
    terms = half(own(single(inputs["grad_output"]) * weights))
    return half(half(rows.T @ terms) @ columns).astype(typed.outputs["out"].dtype.numpy)


def by_windows(typed: TypedCase, rounded: Callable[[Any], Array], result: Callable[[Any], Array]) -> Array:
    """Adds up the products of a gradient and a weight, both rounded, in every window."""
    inputs, attributes = typed.arrays(), typed.attributes
    given, gradient = single(inputs["grad_output"]), np.zeros(inputs["self"].shape, np.float32)
    windows = (attributes[name] for name in ("kernel_size", "stride", "padding", "ceil_mode"))
    pooling = Pooling.of(gradient.shape[-2:], *windows)
    divisor, (height, width) = int(attributes["divisor_override"]), pooling.input_size
    for i, j in np.ndindex(*pooling.output_size):
        top, left = (at * step - pad for at, step, pad in zip((i, j), pooling.stride, pooling.padding, strict=True))
        bottom, right = (at + size for at, size in zip((top, left), pooling.kernel_size, strict=True))
        inside = gradient[..., max(top, 0) : min(bottom, height), max(left, 0) : min(right, width)]
        if divisor or attributes["count_include_pad"]:
            weight = divisor or pooling.kernel_size[0] * pooling.kernel_size[1]
            term = rounded(given[..., i, j]) * rounded(1 / single(weight))
        else:
            own = half if typed.dtype == "float16" else single
            term = rounded(own(given[..., i, j] * own(1 / single(inside.shape[-1] * inside.shape[-2]))))
        inside += term[..., None, None]
    return result(gradient).astype(typed.outputs["grad_input"].dtype.numpy)


def of_plane(typed: TypedCase) -> Array:
    inputs = typed.arrays()
    cells = float(np.prod(inputs["self"].shape[-2:]))
    quotient = half(half(inputs["grad_output"]) / half(cells))
    return np.broadcast_to(quotient, inputs["self"].shape).astype(typed.outputs["grad_input"].dtype.numpy)


def rounded(typed: TypedCase, product: Product) -> Array | None:
    """Returns the gradient as the product's cube unit has it, or None if the call does not take it."""
    if typed.spec.name == ADAPTIVE:
        counts, empty = typed.case.shapes["grad_output"][-2:], 0 in typed.case.shapes["self"]
        is_one = counts == (1, 1)
        return None if is_one or empty or 0 in typed.case.shapes["grad_output"] else by_matrices(typed)
    how = typed.attributes["cube_math_type"]
    if typed.case.name == "half_plane":
        return of_plane(typed)
    if product in (P310, P910A):
        return by_windows(typed, half, half)
    return {1: by_windows(typed, half, half), 3: by_windows(typed, hfloat32, single)}.get(int(how))


def cases(product: Product) -> Iterator[tuple[Product, TypedCase]]:
    for name in (ADAPTIVE, AVERAGE):
        for case in samples_of(name).cases:
            for dtype in served_dtypes(OPERATORS[name], case, product):
                yield product, TypedCase(OPERATORS[name], case, dtype)


def names_a_precision(typed: TypedCase) -> bool:
    return typed.spec.name == AVERAGE and bool(typed.attributes["cube_math_type"])


TAKEN = [
    *cases(P310),
    *cases(P910A),
    *(each for product in (A2, A3) for each in cases(product) if names_a_precision(each[1])),
]


def verdict(typed: TypedCase, product: Product, gradient: Array) -> Verdict:
    inputs, name = typed.arrays(), typed.spec.name
    truth = reference.define(name, inputs, typed.attributes)
    return against_truth(gradient, truth, tolerance_of(OPERATORS[name], product, inputs, typed.attributes)).verdict


@pytest.mark.parametrize(("product", "typed"), TAKEN, ids=lambda each: str(each))
def test_the_roundings_of_a_route_pass_there_alone(product: Product, typed: TypedCase) -> None:
    gradient = rounded(typed, product)
    if gradient is None:
        assert typed.tolerance(product).route is None
        return
    assert verdict(typed, product, gradient) is Verdict.PASSED
    has_other_bits = typed.dtype == "float32" and typed.case.name not in ("one_cell", "same_size")
    for other in (P950, A2, A3, P310, P910A) if has_other_bits else ():
        if typed.tolerance(other).route is None:
            assert verdict(typed, other, gradient) is Verdict.FAILED, other


@pytest.mark.parametrize(("product", "typed"), TAKEN, ids=lambda each: str(each))
def test_a_larger_error_than_the_roundings_make_fails_there(product: Product, typed: TypedCase) -> None:
    """Relative to the sum of |terms| of each element, of which the tolerance may be twice."""
    route = typed.tolerance(product).route
    if typed.dtype != "float32" or route is None:
        return
    inputs = typed.arrays()
    truth, sums = (
        reference.define(typed.spec.name, {**inputs, "grad_output": each}, typed.attributes)
        for each in (inputs["grad_output"], np.abs(inputs["grad_output"]))
    )
    plain = typed.tolerance(P950)
    for cell in {int(np.argmax(sums)), int(np.argmin(sums))}:
        wrong = truth.copy()
        wrong.flat[cell] += 2.1 * (route.relative * sums.flat[cell] + route.absolute) + plain.absolute
        assert verdict(typed, product, wrong) is Verdict.FAILED


@pytest.mark.parametrize("product", [P310, P910A, A2])
def test_terms_that_cancel_in_one_cell_hide_nothing_in_others(product: Product) -> None:
    inputs = {"grad_output": np.ones((1, 1, 10, 10), np.float32), "self": np.zeros((1, 1, 20, 20), np.float32)}
    inputs["grad_output"][0, 0, 0, :2] = 3e4, -3e4
    attributes = {"kernel_size": (2, 4), "stride": (2, 2), "padding": (0, 1), "cube_math_type": 1}
    truth = reference.define("avg_pool2d_backward", inputs, attributes)
    spec = OPERATORS["avg_pool2d_backward"]
    limit = tolerance_of(spec, product, inputs, {**spec.defaults, **attributes}).limit(truth)
    assert float(limit.max()) > 1
    far = np.abs(truth) < 10
    far[..., :2, :6] = False
    assert (limit[far] < 0.01).all()


@pytest.mark.parametrize("product", [A2, A3, P950, P310, P910A])
def test_every_other_call_of_the_catalogue_has_no_wider_limit(product: Product) -> None:
    """Float32 elsewhere is judged far below 2^-10, and one window over all of a plane on every product."""
    for name, spec in OPERATORS.items():
        for case in samples_of(name).cases:
            for dtype in served_dtypes(spec, case, product):
                typed = TypedCase(spec, case, dtype)
                is_taken = (product, typed) in TAKEN or names_a_precision(typed)
                tolerance = typed.tolerance(product)
                if tolerance.route is None:
                    is_coarse = (name, product) in COARSE
                    assert is_coarse or tolerance.relative <= {"float16": 2e-3, "bfloat16": 1.6e-2}.get(dtype, 1e-3)
                elif not tolerance.route.inputs:
                    assert name in (ADAPTIVE, AVERAGE, *FORWARD)
                    assert is_taken or dtype == "float16" or name in FORWARD


@pytest.mark.parametrize("product", [P310, P910A])
def test_one_window_of_a_plane_does_not_take_the_matrices(product: Product) -> None:
    typed = next(each for _, each in cases(product) if (each.case.name, each.dtype) == ("global", "float32"))
    truth = reference.define(ADAPTIVE, typed.arrays(), {})
    assert verdict(typed, product, truth.astype(np.float32)) is Verdict.PASSED
    assert verdict(typed, product, (truth * (1 + 2**-10)).astype(np.float32)) is Verdict.FAILED


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        ((1, 1, 30, 14), {}),
        ((1, 1, 14, 28), {}),
        ((1, 2, 14, 14), {"ceil_mode": True}),
        ((1, 2, 14, 14), {"count_include_pad": False}),
        ((1, 2, 14, 14), {"divisor_override": 256}),
        ((1, 2, 300, 300), {"kernel_size": (13, 21), "stride": (13, 21)}),
        ((1, 65536, 2, 2), {}),
    ],
)
def test_calls_that_the_convolution_of_a2_does_not_take_are_computed_in_full(
    shape: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    kernel = {"kernel_size": (2, 2), "stride": (2, 2), **attributes, "cube_math_type": 1}
    pooled = tuple(size // step for size, step in zip(shape[-2:], kernel["stride"], strict=True))
    case = replace(
        samples_of(AVERAGE).cases[0], shapes={"grad_output": (*shape[:2], *pooled), "self": shape}, attributes=kernel
    )
    assert TypedCase(OPERATORS[AVERAGE], case, "float32").tolerance(A2).route is None
    square = replace(case, shapes={"grad_output": (1, 1, 7, 7), "self": (1, 1, 14, 14)})
    plain = replace(square, attributes={"kernel_size": (2, 2), "cube_math_type": 1})
    assert TypedCase(OPERATORS[AVERAGE], plain, "float32").tolerance(A2).route is not None


def test_a_weight_of_few_bits_has_a_wider_limit() -> None:
    """1 / 62500 is 1.6e-5, of which FLOAT16 has 8 bits."""
    shape, kernel = (1, 1, 251, 251), {"kernel_size": (250, 250), "stride": (1, 1), "cube_math_type": 1}
    case = replace(samples_of(AVERAGE).cases[0], shapes={"grad_output": (1, 1, 2, 2), "self": shape}, attributes=kernel)
    typed = TypedCase(OPERATORS[AVERAGE], case, "float32")
    assert verdict(typed, P910A, by_windows(typed, half, half)) is Verdict.PASSED
    error = abs(float(half(1 / 62500)) * 62500 - 1)
    route = typed.tolerance(P910A).route
    assert route is not None
    assert 2**-11 < error < route.relative
