"""Functions of each element: every pair of types, numbers beside tensors, casts, and values of any size."""

import math
from collections.abc import Callable
from contextlib import ExitStack
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from aclgrad.operators.promotion import promoted
from aclgrad.tensors import DTYPES
from tools.abi.acl import Format, Library, Scalar

from .products import storage_of
from .test_elementwise import view_of

TYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")
TOLERANCES = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 4e-6, "float64": 1e-14}
COUNT = 1100
"""More than a kernel converts at a time."""


def numpy_type(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def run(acl: Library, name: str, inputs: list[np.ndarray], dtype: str, *values: object) -> np.ndarray:
    """Runs aclnn`name` on these tensors and then these values, into a tensor of this type."""
    made = np.zeros(np.broadcast_shapes(*(each.shape for each in inputs)), numpy_type(dtype))
    with ExitStack() as stack:
        tensors = [stack.enter_context(acl.tensor(storage_of(each), each, Format.ND)) for each in inputs]
        given = [stack.enter_context(acl.value(each)) for each in values]
        out = stack.enter_context(acl.tensor(made, format_=Format.ND))
        acl.run(f"aclnn{name}", *(each.handle for each in tensors), *given, out.handle)
        return out.read_storage()


def drawn(name: str, seed: int) -> np.ndarray:
    """Returns numbers from the whole range of an integer type, or of ordinary size."""
    generator, dtype = np.random.default_rng(seed), numpy_type(name)
    if name == "bool":
        return generator.integers(0, 2, COUNT).astype(bool)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return generator.integers(limits.min, limits.max, COUNT, dtype, endpoint=True)
    return (generator.standard_normal(COUNT) * 3).astype(dtype)


def assert_near(found: np.ndarray, expected: np.ndarray, message: str) -> None:
    """Integers are exact."""
    name = found.dtype.name
    if name not in TOLERANCES:
        np.testing.assert_array_equal(found, expected.astype(found.dtype), message)
        return
    with np.errstate(over="ignore"):
        wide = expected.astype(found.dtype).astype(np.float64)
    tolerance = TOLERANCES[name]
    np.testing.assert_allclose(found.astype(np.float64), wide, tolerance, tolerance / 8, err_msg=message)


def type_of(one: str, other: str) -> str:
    return promoted(DTYPES[one], DTYPES[other]).name


Function = Callable[[np.ndarray, np.ndarray], np.ndarray]
BINARY: dict[str, tuple[Function, tuple[object, ...]]] = {
    "Add": (np.add, (Scalar(1, "int64"),)),
    "Sub": (np.subtract, (Scalar(True, "bool"),)),
    "Mul": (np.multiply, ()),
    "Maximum": (np.maximum, ()),
    "Minimum": (np.minimum, ()),
    "EqTensor": (np.equal, ()),
    "GtTensor": (np.greater, ()),
    "Div": (np.true_divide, ()),
}


@pytest.mark.parametrize("name", BINARY)
def test_types_are_promoted(acl: Library, name: str) -> None:
    """Integers wrap around in the promoted type, and are rounded to one of 16 bits."""
    function, values = BINARY[name]
    for number, (one, other) in enumerate(product(TYPES, TYPES)):
        if name == "Sub" and one == other == "bool":
            continue
        common = type_of(one, other)
        x, y = drawn(one, number), drawn(other, number + 1000)
        with np.errstate(all="ignore"):
            x[:9] = y[:9].astype(x.dtype)  # so that some are equal
        computed = "float32" if name == "Div" and numpy_type(common).kind in "iub" else common
        out = "bool" if name.endswith("Tensor") else computed
        wide = np.float64 if computed in TOLERANCES else numpy_type(computed)
        with np.errstate(all="ignore"):
            operands = [each.astype(numpy_type(computed)).astype(wide) for each in (x, y)]
            expected = function(*operands)
        assert_near(run(acl, name, [x, y], out, *values), expected, f"{name} {one} {other}")


@pytest.mark.parametrize("condition", ["bool", "uint8"])
def test_selection_of_any_types(acl: Library, condition: str) -> None:
    chosen = np.random.default_rng(0).integers(0, 2, COUNT).astype(condition) * numpy_type(condition).type(1)
    chosen[3] = 1 if condition == "bool" else 200
    for number, (one, other) in enumerate(product(TYPES, TYPES)):
        x, y = drawn(one, number), drawn(other, number + 1000)
        common = numpy_type(type_of(one, other))
        with np.errstate(over="ignore"):
            expected = np.where(chosen != 0, x.astype(common), y.astype(common))
        found = run(acl, "SWhere", [chosen, x, y], common.name)
        np.testing.assert_array_equal(found, expected, f"{one} {other}")


@pytest.mark.parametrize("kind", ["float32", "float64", "int64", "bool"])
@pytest.mark.parametrize("name", ["Adds", "Muls", "Divs", "GtScalar", "GeScalar", "LtScalar", "LeScalar", "EqScalar"])
def test_a_number_counts_only_if_it_is_of_a_higher_kind(acl: Library, name: str, kind: str) -> None:
    functions: dict[str, Function] = {
        "Adds": lambda x, y: x + np.array(3, y.dtype) * y, "Muls": np.multiply, "Divs": np.true_divide,
        "GtScalar": np.greater, "GeScalar": np.greater_equal, "LtScalar": np.less, "LeScalar": np.less_equal,
        "EqScalar": np.equal,
    }  # fmt: skip
    value = {"int64": 3, "bool": True}.get(kind, 1.5)
    own = kind if kind in ("int64", "bool") else "float32"
    for number, one in enumerate(TYPES):
        x = drawn(one, number)
        x[7] = value
        whole = numpy_type(one).kind in "iub"
        common = one if not whole or (own == "int64" and one != "bool") or own == "bool" else own
        computed = "float32" if name == "Divs" and numpy_type(common).kind in "iub" else common
        if name == "Adds" and computed == "bool":
            continue  # no factor of BOOL is 3
        out = "bool" if name.endswith("Scalar") else computed
        wide = np.float64 if computed in TOLERANCES else numpy_type(computed)
        with np.errstate(all="ignore"):
            expected = functions[name](x.astype(numpy_type(computed)).astype(wide), np.array(value, wide))
        values = (Scalar(value, kind), *((Scalar(3, "int64"),) if name == "Adds" else ()))
        assert_near(run(acl, name, [x], out, *values), expected, f"{name} {one} {kind}")


def test_factors_of_summands(acl: Library) -> None:
    for name, sign in (("Add", 1), ("Sub", -1)):
        for one, factor in (("int8", Scalar(100, "int64")), ("float32", Scalar(0.3, "float32")), ("int64", Scalar(-7))):
            kind = Scalar(factor.value, "int64") if one.startswith("int") else factor
            x, y = drawn(one, 1), drawn(one, 2)
            with np.errstate(over="ignore"):
                expected = x + np.array(sign * int(factor.value) if one != "float32" else sign * 0.3, x.dtype) * y
            assert_near(run(acl, name, [x, y], one, kind), expected, f"{name} {one}")


def test_numbers_that_the_type_does_not_hold(acl: Library) -> None:
    """Sums wrap around; comparisons are of the numbers themselves, except that those of halves are rounded."""
    x = drawn("int8", 1)
    np.testing.assert_array_equal(
        run(acl, "Adds", [x], "int8", Scalar(300, "int64"), Scalar(1, "int64")), x + np.int8(44)
    )
    assert not run(acl, "GtScalar", [x], "bool", Scalar(300, "int64")).any()
    assert run(acl, "LtScalar", [x], "bool", Scalar(300, "int64")).all()
    large = np.array([2**53, 2**53 + 1], np.int64)
    np.testing.assert_array_equal(run(acl, "EqScalar", [large], "bool", Scalar(2**53 + 1, "int64")), [False, True])
    tenth = np.array([0.1], np.float16)
    assert run(acl, "EqScalar", [tenth], "bool", Scalar(0.1, "float32")).all()


def test_integers_are_as_floats_of_16_bits_beside_such(acl: Library) -> None:
    x, y = np.array([2049, 70000], np.int32), np.array([2048, 60000], np.float16)
    np.testing.assert_array_equal(run(acl, "EqTensor", [x, y], "bool"), [True, False])
    np.testing.assert_array_equal(run(acl, "Sub", [x, y], "float16", Scalar(1, "int64")), [0, np.inf])


def test_results_are_cast(acl: Library) -> None:
    """Integers wrap around in the promoted type first; whether something holds may be of any type."""
    x = np.array([100, -100, 5], np.int8)
    np.testing.assert_array_equal(run(acl, "Add", [x, x], "int64", Scalar(1, "int64")), [-56, 56, 10])
    np.testing.assert_array_equal(run(acl, "Add", [x, x], "float16", Scalar(1, "int64")), [-56, 56, 10])
    flags = np.array([True, False, True])
    np.testing.assert_array_equal(run(acl, "Add", [flags, flags], "int32", Scalar(1, "int64")), [1, 0, 1])
    for dtype in TYPES:
        np.testing.assert_array_equal(run(acl, "GtScalar", [x], dtype, Scalar(4, "int64")), [1, 0, 1])
        np.testing.assert_array_equal(run(acl, "EqTensor", [x * 1.5, x * 1.5], dtype), [1, 1, 1])
    np.testing.assert_array_equal(run(acl, "Neg", [x], "float64"), [-100, 100, -5])
    roots = run(acl, "Rsqrt", [np.array([70000], np.int32)], "float16")
    np.testing.assert_array_equal(roots, [0])  # the type of the result has no such number


def sigmoid(x: np.ndarray) -> np.ndarray:
    tail = np.exp(-np.abs(x))
    return np.where(x < 0, tail, 1) / (1 + tail)


below = np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2, [np.float64])
"""The distribution function of normal numbers."""

ANY = np.concatenate(
    [
        np.random.default_rng(0).integers(0, 2**32, 20000, np.uint32).view(np.float32),
        np.linspace(-20, 20, 4001, dtype=np.float32),
        np.linspace(0.9, 1.1, 401, dtype=np.float32),
        np.float32([0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.17549435e-38, 3.4e38, 88.8, -104]),
    ]
)
UNARY: dict[str, tuple[Callable[[np.ndarray], np.ndarray], tuple[object, ...], float]] = {
    "Abs": (np.abs, (), 0),
    "Neg": (np.negative, (), 0),
    "Relu": (lambda x: np.where(x < 0, 0, x), (), 0),
    "Sqrt": (np.sqrt, (), 1e-7),
    "Rsqrt": (lambda x: 1 / np.sqrt(x), (), 2e-7),
    "Reciprocal": (lambda x: 1 / x, (), 1e-7),
    "Exp": (np.exp, (), 2e-7),
    "Log": (np.log, (), 2e-7),
    "Tanh": (np.tanh, (), 4e-7),
    "Sigmoid": (sigmoid, (), 4e-7),
    "Silu": (lambda x: x * sigmoid(x), (), 6e-6),
    "Hardswish": (lambda x: x * (np.clip(x + 3, 0, 6) / 6), (), 4e-7),
    # Far below 0 the error of the exponent counts.
    "GeluV2": (lambda x: x * below(x), (0,), 4e-6),
    "GeluV2 by tanh": (lambda x: x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), (1,), 2e-5),
    "LeakyRelu": (lambda x: np.where(x > 0, x, x * np.float32(0.1)), (Scalar(0.1),), 1e-7),
    "Clamp": (lambda x: np.clip(x, -1.5, 1e30), (Scalar(-1.5), Scalar(1e30)), 1e-7),
    "Muls": (lambda x: x * 3, (Scalar(3, "int64"),), 1e-7),
    "PowTensorScalar": (lambda x: x**2.5, (Scalar(2.5),), 1e-6),
    "PowTensorScalar 5": (lambda x: x**5, (Scalar(5, "int64"),), 1e-6),
    "PowTensorScalar -3": (lambda x: x**-3.0, (Scalar(-3.0),), 1e-6),
    "PowTensorScalar 0.5": (np.sqrt, (Scalar(0.5),), 1e-7),
    "PowTensorScalar -0.5": (lambda x: 1 / np.sqrt(x), (Scalar(-0.5),), 2e-7),
    "PowTensorScalar -2": (lambda x: 1 / (x * x), (Scalar(-2.0),), 4e-7),
    "PowTensorScalar 0": (lambda x: np.ones_like(x), (Scalar(0.0),), 0),
    "PowTensorScalar inf": (lambda x: x**np.inf, (Scalar(np.inf),), 0),
}


@pytest.mark.parametrize("name", UNARY)
def test_values_of_any_size(acl: Library, name: str) -> None:
    function, values, relative = UNARY[name]
    with np.errstate(all="ignore"):
        expected = function(ANY.astype(np.float64))
        truth = expected.astype(np.float32)
    found = run(acl, name.split()[0], [ANY], "float32", *values)
    is_normal = np.isfinite(truth) & (np.abs(expected) > 2e-38)
    np.testing.assert_allclose(found[is_normal], expected[is_normal], rtol=max(relative, 1e-7))
    is_small = np.isfinite(truth) & ~is_normal
    np.testing.assert_allclose(found[is_small], truth[is_small], rtol=0, atol=5e-43)
    np.testing.assert_array_equal(found[~np.isfinite(truth)], truth[~np.isfinite(truth)])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", UNARY)
def test_values_of_16_bits(acl: Library, name: str, dtype: str) -> None:
    """All of them."""
    function, values, _ = UNARY[name]
    every = np.arange(2**16, dtype=np.uint16).view(numpy_type(dtype)).copy()
    with np.errstate(all="ignore"):
        expected = function(every.astype(np.float64)).astype(numpy_type(dtype)).astype(np.float64)
    found = run(acl, name.split()[0], [every], dtype, *values).astype(np.float64)
    # Next to the largest number, one may be infinity.
    largest = float(ml_dtypes.finfo(numpy_type(dtype)).max)
    step = {"float16": 2.0**-24, "bfloat16": 2.0**-133}[dtype]
    found, expected = np.clip(found, -largest, largest), np.clip(expected, -largest, largest)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCES[dtype], atol=step)


def test_powers_of_numbers_next_to_one_and_signs(acl: Library) -> None:
    x = np.float32([-np.inf, -2, -1, -0.0, 0.0, 1, np.inf, np.nan, 1 + 2**-23, 0.99999994])
    for exponent in (2.0, 3.0, -1.0, 7.0, -7.0, 2.5, -2.5, 1e10, -1e10, 1e30, 0.0, np.inf, -np.inf, np.nan, 1 / 3):
        with np.errstate(all="ignore"):
            expected = (x.astype(np.float64) ** np.float64(np.float32(exponent))).astype(np.float32)
        found = run(acl, "PowTensorScalar", [x], "float32", Scalar(exponent, "float32"))
        np.testing.assert_allclose(found, expected, rtol=4e-6, err_msg=str(exponent))
        is_number = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[is_number], np.signbit(expected)[is_number], str(exponent))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64"])
def test_powers_of_integers_wrap_around(acl: Library, dtype: str) -> None:
    x = drawn(dtype, 3)
    for exponent in (0, 1, 2, 3, 5, 19):
        with np.errstate(over="ignore"):
            expected = x ** np.array(exponent, dtype)
        np.testing.assert_array_equal(run(acl, "PowTensorScalar", [x], dtype, Scalar(exponent, "int64")), expected)


def test_bounds(acl: Library) -> None:
    """In the wrong order the upper one counts; one may be missing; NaN remains, and one as a bound is everywhere."""
    x = np.float32([-3, -0.5, 0.5, 3, np.nan, np.inf])
    for least, most in ((-1.0, 2.0), (None, 1.0), (-1.0, None), (2.0, -1.0), (np.nan, 1.0), (0.0, np.nan)):
        bounds = [None if each is None else Scalar(each, "float32") for each in (least, most)]
        lower, upper = (-np.inf if least is None else least), (np.inf if most is None else most)
        expected = np.where(np.isnan(x), x, np.minimum(np.maximum(x, lower), upper))
        np.testing.assert_array_equal(run(acl, "Clamp", [x], "float32", *bounds), expected)
    for dtype in ("int8", "uint8", "int64"):
        whole = drawn(dtype, 4)
        found = run(acl, "Clamp", [whole], dtype, Scalar(3, "int64"), Scalar(100, "int64"))
        np.testing.assert_array_equal(found, np.clip(whole, 3, 100))
        np.testing.assert_array_equal(run(acl, "Clamp", [whole], dtype, None, Scalar(9, "int64")), np.minimum(whole, 9))
    found = run(acl, "Clamp", [drawn("int32", 5)], "float32", Scalar(-1.5, "float32"), None)
    np.testing.assert_array_equal(found, np.maximum(drawn("int32", 5).astype(np.float32), np.float32(-1.5)))


def test_numbers_that_are_none(acl: Library) -> None:
    """Of two numbers, NaN is the larger and the smaller one; it is neither equal nor greater."""
    x, y = np.float32([np.nan, 1, np.nan, 2]), np.float32([1, np.nan, np.nan, 1])
    for name in ("Maximum", "Minimum"):
        np.testing.assert_array_equal(np.isnan(run(acl, name, [x, y], "float32")), [True, True, True, False])
    np.testing.assert_array_equal(run(acl, "EqTensor", [x, y], "bool"), [False] * 4)
    np.testing.assert_array_equal(run(acl, "GtTensor", [x, y], "bool"), [False, False, False, True])


@pytest.mark.parametrize("name", ["Abs", "Neg"])
def test_the_least_integer_is_its_own_negative(acl: Library, name: str) -> None:
    for dtype in ("int8", "int32", "int64"):
        least = np.array([np.iinfo(dtype).min], dtype)
        np.testing.assert_array_equal(run(acl, name, [least], dtype), least)


@pytest.mark.parametrize("shape", [(41,), (3, 1100), (5, 7, 3), (2, 3, 250, 60)], ids=str)
def test_views_are_broadcast(acl: Library, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(len(shape))
    for _ in range(5):
        x, y = view_of(generator, shape, np.dtype(np.float32)), view_of(generator, shape, np.dtype(np.float16))
        whole = np.ascontiguousarray(view_of(generator, shape, np.dtype(np.float32)) * 100).astype(np.int32)
        condition = np.ascontiguousarray(view_of(generator, shape, np.dtype(np.float32)) > 0.5)
        full = np.zeros(shape, bool)
        expected = np.where(condition, x, y) + np.zeros(np.broadcast_shapes(condition.shape, x.shape, y.shape))
        np.testing.assert_array_equal(run(acl, "SWhere", [condition, x, y], "float32"), expected)
        np.testing.assert_array_equal(run(acl, "Mul", [whole, full], "int32"), np.zeros(shape))
        np.testing.assert_array_equal(run(acl, "Add", [whole, x], "float32", Scalar(1)), whole.astype(np.float32) + x)
