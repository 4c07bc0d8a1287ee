"""Matrix products and sums: their definitions cell by cell, what they refuse, and how far a product may be off."""

from itertools import product as pairs
from typing import Any

import numpy as np
import pytest

from aclgrad import reference
from aclgrad.judge.findings.comparison import against_truth
from aclgrad.judge.findings.rows import Verdict
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments
from aclgrad.products import Product
from aclgrad.tensors import DTYPES, TensorType
from aclgrad.tolerances import tolerance_of

A2, P310, P910A, P950 = Product.ATLAS_A2, Product.ATLAS_INFERENCE, Product.ATLAS_TRAINING, Product.ASCEND_950
HALVING = (P310, P910A)
SMALL = 400

Array = np.ndarray[Any, Any]


def multiplied(one: Array, other: Array) -> Array:
    """Each element by itself, of matrices that numpy's own rules of broadcasting pick."""
    rows, columns = one[None] if one.ndim == 1 else one, other[:, None] if other.ndim == 1 else other
    batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    rows = np.broadcast_to(rows, (*batch, *rows.shape[-2:]))
    columns = np.broadcast_to(columns, (*batch, *columns.shape[-2:]))
    found = np.zeros((*batch, rows.shape[-2], columns.shape[-1]))
    for cell in np.ndindex(*found.shape):
        row, column = rows[(*cell[:-2], cell[-2])], columns[(*cell[:-2], slice(None), cell[-1])]
        found[cell] = sum(float(a) * float(b) for a, b in zip(row, column, strict=True))
    return found.reshape((*batch, *one.shape[-2:-1], *(other.shape[-1:] if other.ndim > 1 else ())))


def expected(name: str, arrays: dict[str, Array], attributes: dict[str, Any]) -> Array:
    if name == "reduce_sum":
        axes = [axis % max(arrays["self"].ndim, 1) for axis in attributes["dims"]] or range(arrays["self"].ndim)
        found = np.zeros([1 if axis in axes else size for axis, size in enumerate(arrays["self"].shape)])
        for cell in np.ndindex(*arrays["self"].shape):
            found[tuple(0 if axis in axes else at for axis, at in enumerate(cell))] += float(arrays["self"][cell])
        return (
            found if attributes["keep_dims"] else found.reshape([n for i, n in enumerate(found.shape) if i not in axes])
        )
    *addend, one, other = arrays.values()
    found = multiplied(one, other)
    for each in addend:
        found = attributes["alpha"] * found + attributes["beta"] * np.broadcast_to(each, found.shape)
    return found


def small_cases() -> list[Any]:
    names = ("addmm", "batch_mat_mul", "matmul", "mm", "reduce_sum")
    found = [each for each in typed_cases(A2, *names) if each.dtype == "float32"]
    return [each for each in found if sum(size.element_count for size in each.arguments.inputs.values()) <= SMALL]


@pytest.mark.parametrize("typed", small_cases(), ids=str)
def test_a_definition_gives_what_each_element_is(typed: Any) -> None:
    arrays = typed.arrays()
    found = reference.define(typed.spec.name, arrays, typed.case.attributes)
    wanted = expected(typed.spec.name, arrays, typed.attributes)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert found.dtype == np.float64


def problems(name: str, product: Product, of: str, *shapes: tuple[int, ...], **given: Any) -> str:
    spec = OPERATORS[name]
    named = dict(zip([each.name for each in spec.inputs], shapes, strict=True))
    types = {each: TensorType(DTYPES[of], shape) for each, shape in named.items()}
    found = spec.check(Arguments(types, {**spec.defaults, **given}), product)
    return "; ".join(f"{each.field} {each.problem}; {each.remedy}" for each in found)


@pytest.mark.parametrize(
    ("name", "shapes", "problem"),
    [
        ("mm", ((2, 3), (4, 5)), "inputs[mat2].shape is (4, 5), and the last size of inputs[self] is 3; send 3 as the"),
        (
            "matmul",
            ((3,), (4,)),
            "inputs[mat2].shape is (4,), and the last size of inputs[self] is 3; send 3 as the size",
        ),
        ("matmul", ((2, 5, 3), (4, 3, 6)), "whose batch does not broadcast"),
        ("batch_mat_mul", ((2, 5, 3), (3, 3, 6)), "whose batch does not broadcast"),
        ("addmm", ((3,), (2, 5), (5, 4)), "inputs[self].shape is (3,), and the product is (2, 4)"),
        ("addmm", ((3, 4), (2, 5), (5, 4)), "inputs[self].shape is (3, 4)"),
        ("addmm", ((4,), (2, 5), (6, 4)), "inputs[mat2].shape is (6, 4)"),
    ],
)
def test_shapes_that_do_not_multiply_are_refused(name: str, shapes: Any, problem: str) -> None:
    assert problem in problems(name, A2, "float32", *shapes)


@pytest.mark.parametrize(("factor", "problem"), [(1e-9, "take for 0; send 0"), (-1e-7, "take for 0"), (1e39, "beyond")])
def test_factors_that_devices_read_otherwise_are_refused(factor: float, problem: str) -> None:
    for name in ("alpha", "beta"):
        assert f"attributes[{name}]" in (
            found := problems("addmm", A2, "float32", (4,), (2, 5), (5, 4), **{name: factor})
        )
        assert problem in found
    assert not problems("addmm", A2, "float32", (4,), (2, 5), (5, 4), alpha=0.0, beta=-3.0)


@pytest.mark.parametrize(
    ("dims", "problem"),
    [((2,), "is 2, and inputs[self] has the shape (3, 4); send -2 to 1"), ((0, -2), "is -2, an axis that is there")],
)
def test_axes_are_each_there_once(dims: tuple[int, ...], problem: str) -> None:
    assert problem in problems("reduce_sum", A2, "float32", (3, 4), dims=dims)


def test_sums_have_a_dtype_of_the_product() -> None:
    assert not problems("reduce_sum", A2, "float32", (3, 4), dtype=DTYPES["bfloat16"])
    assert "which product 910A lacks" in problems("reduce_sum", P910A, "float32", (3, 4), dtype=DTYPES["bfloat16"])


def test_full_float32_is_the_mode_of_products_that_have_it() -> None:
    """The others multiply in FLOAT16: they take what says so, and have it as their own."""
    mode = {each.name: each for each in OPERATORS["mm"].attributes}["cube_math_type"]
    for product in OPERATORS["mm"].products:
        arguments = Arguments({"self": TensorType(DTYPES["float32"], (2, 2))}, {"cube_math_type": None})
        assert mode.given(arguments, product) == (1 if product in HALVING else 0)
        assert not problems("mm", product, "float32", (2, 3), (3, 4))
        for chosen in range(4):
            found = problems("mm", product, "float32", (2, 3), (3, 4), cube_math_type=chosen)
            assert bool(found) == (product in HALVING and chosen in (0, 3)), (product, chosen)
            assert not problems("mm", product, "float16", (2, 3), (3, 4), cube_math_type=chosen)
    assert [bool(list(mode.check(each))) for each in (-1, 0, 3, 4)] == [True, False, False, True]


def halved(array: Array) -> Array:
    return array.astype(np.float16).astype(np.float64)


def in_eleven_bits(array: Array) -> Array:
    """Rounded to HFLOAT32."""
    bits = array.astype(np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 2**11) >> 12 << 12).astype(np.uint32).view(np.float32).astype(np.float64)


@pytest.mark.parametrize("terms", [1, 40, 3000])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_a_product_is_judged_by_the_precision_of_its_mode(terms: int, scale: float) -> None:
    generator = np.random.default_rng(terms)
    one, other = (generator.standard_normal(shape).astype(np.float32) for shape in ((30, terms), (terms, 20)))
    inputs = {"self": one * np.float32(scale), "mat2": other}
    truth = reference.define("mm", inputs, {})
    single = (inputs["self"] @ other).astype(np.float32)
    results = {
        "float32": single,
        "eleven bits": (in_eleven_bits(inputs["self"]) @ in_eleven_bits(other)).astype(np.float32),
        "float16": (halved(inputs["self"]) @ halved(other)).astype(np.float32),
    }
    passing = {
        (A2, 0): {"float32"},
        (A2, 1): {"float32", "eleven bits"},
        (A2, 2): {"float32", "eleven bits", "float16"},
        (A2, 3): {"float32", "eleven bits"},
        (P310, None): {"float32", "eleven bits", "float16"},
        (P910A, 2): {"float32", "eleven bits", "float16"},
        (P950, None): {"float32"},
    }
    for (product, mode), names in passing.items():
        tolerance = tolerance_of(OPERATORS["mm"], product, inputs, {"cube_math_type": mode})
        found = {
            name for name, each in results.items() if against_truth(each, truth, tolerance).verdict is Verdict.PASSED
        }
        # Errors of many terms cancel, and a limit that allows for the worst does not tell 11 bits from 10.
        assert found == names or (terms > 1 and mode in (1, 3) and found == {*names, "float16"}), (product, mode)


def test_an_error_of_one_term_is_found_whatever_the_others_are() -> None:
    """A limit by the largest element would not see it in a row that is small."""
    generator = np.random.default_rng(0)
    one, other = (generator.standard_normal(shape).astype(np.float32) for shape in ((4, 500), (500, 4)))
    one[2] *= 1e-4
    inputs = {"self": one, "mat2": other}
    truth = reference.define("mm", inputs, {})
    tolerance = tolerance_of(OPERATORS["mm"], A2, inputs, {})
    for row, column in pairs(range(4), range(4)):
        wrong = truth.astype(np.float32)
        wrong[row, column] -= one[row, 7] * other[7, column]
        assert against_truth(wrong, truth, tolerance).verdict is Verdict.FAILED
