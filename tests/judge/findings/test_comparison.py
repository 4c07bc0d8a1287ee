"""Comparisons of gradients, on arrays whose outcome is plain."""

import json
from functools import partial

import ml_dtypes
import numpy as np
import pytest

from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Element, Finding, Origin, Row, Task, Verdict
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import DTYPES, TensorType

TRUTH = np.array([[0.0, 1.0], [-2.0, 1000.0]])
LIMIT = Tolerance(relative=1e-3, absolute=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_definition_itself_passes(dtype: type) -> None:
    finding = comparison.against_truth(TRUTH.astype(dtype), TRUTH, LIMIT)
    assert (finding.verdict, finding.figures["outside"]) == (Verdict.PASSED, 0)


@pytest.mark.parametrize(
    ("element", "error", "verdict"),
    [
        ((0, 0), 0.9e-4, Verdict.PASSED),
        ((0, 0), 1.1e-4, Verdict.FAILED),
        ((1, 1), 1.0, Verdict.PASSED),
        ((1, 1), -1.1, Verdict.FAILED),
        ((1, 0), np.nan, Verdict.FAILED),
        ((0, 1), np.inf, Verdict.FAILED),
    ],
)
def test_an_element_outside_its_own_limit_fails(element: tuple[int, int], error: float, verdict: Verdict) -> None:
    gradient = TRUTH.copy()
    gradient[element] += error
    finding = comparison.against_truth(gradient, TRUTH, LIMIT)
    assert finding.verdict is verdict
    if verdict is Verdict.FAILED:
        assert f"at {element}" in finding.message
        assert finding.figures["outside"] == 0.25


def test_figures_are_those_of_the_largest_errors() -> None:
    figures = comparison.against_truth(TRUTH + np.array([[0, 0.0005], [0, 0]]), TRUTH, Tolerance(1e-3, 0.0)).figures
    assert figures["max_error"] == pytest.approx(0.0005)
    assert figures["max_relative_error"] == pytest.approx(0.0005)
    assert figures["mean_relative_error"] == pytest.approx(0.0005 / 3)
    assert figures["error_of_limit"] == pytest.approx(0.5)


def test_an_exact_limit_takes_no_error_at_all() -> None:
    exact = Tolerance(0.0, 0.0)
    integers = np.array([3, -4], np.int32)
    assert comparison.against_truth(integers, integers.astype(np.float64), exact).verdict is Verdict.PASSED
    assert comparison.against_truth(integers + 1, integers.astype(np.float64), exact).verdict is Verdict.FAILED


def test_an_empty_gradient_passes() -> None:
    empty = np.zeros((0, 3))
    assert comparison.against_truth(empty, empty, LIMIT).verdict is Verdict.PASSED
    assert comparison.zeros(empty, empty == 0).verdict is Verdict.PASSED


@pytest.mark.parametrize("left", [1e-30, np.nan, -1.0])
def test_only_zero_is_zero(left: float) -> None:
    untouched = np.array([True, False, True])
    assert comparison.zeros(np.array([0.0, 5.0, -0.0]), untouched).verdict is Verdict.PASSED
    finding = comparison.zeros(np.array([0.0, 5.0, left]), untouched)
    assert finding.verdict is Verdict.FAILED
    assert "at (2,)" in finding.message


def test_bits_tell_zeros_and_types_apart() -> None:
    zero = np.zeros(2, np.float32)
    assert comparison.same_bits(zero, zero.copy())
    assert not comparison.same_bits(zero, -zero)
    assert not comparison.same_bits(zero, zero.astype(np.int32))
    assert not comparison.same_bits(zero, zero.reshape(1, 2))
    assert comparison.difference(zero, np.array([0, 3], np.float32)) == "1 of 2 elements differ, by up to 3"


def test_another_shape_or_dtype_is_told() -> None:
    expected = {"out": TensorType(DTYPES["float32"], (2, 3))}
    assert comparison.wrong_type(np.zeros((2, 3), np.float32), expected) is None
    for gradient in (np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float64)):
        finding = comparison.wrong_type(gradient, expected)
        assert finding is not None
        assert finding.message.startswith("out is ")
        assert "instead of float32 (2, 3)" in finding.message


def test_of_several_outputs_the_worst_is_told() -> None:
    def judge(gradients: tuple[np.ndarray, ...]) -> Finding:
        return comparison.each_output(
            partial(comparison.against_truth, tolerance=LIMIT), ("grad_input", "grad_weight"), gradients, (TRUTH, TRUTH)
        )

    nan = np.full_like(TRUTH, np.nan)
    assert judge((TRUTH + 1, nan)).message.startswith("grad_weight: 4 of 4")
    good, bad = TRUTH + 0.5e-4, TRUTH + 1
    found = judge((TRUTH, good))
    assert (found.verdict, found.message) == (Verdict.PASSED, "worst in grad_weight")
    assert found.figures["error_of_limit"] == pytest.approx(0.5)
    for gradients, name in (((bad, good), "grad_input"), ((good, bad), "grad_weight")):
        found = judge(gradients)
        assert found.verdict is Verdict.FAILED
        assert found.message.startswith(f"{name}: 3 of 4 elements are outside")


def test_the_bits_of_all_outputs_count() -> None:
    zero, other = np.zeros(2, np.float32), np.array([0, 3], np.float32)
    assert comparison.same_bits((zero, other), (zero, other))
    assert not comparison.same_bits((zero, zero), (zero, other))
    assert comparison.difference((zero, zero), (zero, other)) == "1 of 2 elements differ, by up to 3"


def test_a_row_is_the_same_after_json() -> None:
    origin = Origin("127.0.0.1:1", "910B", "libacl_host.so", "8.1.0")
    task = Task(origin, "accuracy", "operator", "float32", (2, 3), "case", lambda: Finding(Verdict.PASSED))
    worst = (Element((1, 2), float("inf"), 0.5),)
    row = Row.of(task, Finding(Verdict.NOTED, "told", {"p50_ms": 1.5, "error": float("inf")}, worst), 0.25)
    assert row.figures == {"p50_ms": 1.5, "error": None}
    assert Row.from_json(json.loads(json.dumps(row.to_json(), allow_nan=False))) == row


def test_the_worst_elements_are_located_worst_first() -> None:
    gradient = TRUTH.copy()
    gradient[0, 1], gradient[1, 0] = 1.5, np.nan
    finding = comparison.against_truth(gradient, TRUTH, LIMIT)
    assert [each.index for each in finding.worst] == [(1, 0), (0, 1)]
    assert (finding.worst[1].computed, finding.worst[1].expected, finding.worst[1].ratio) == (1.5, 1.0, 1.5)
    assert "nan at (1, 0)" in finding.message


GENERATOR = np.random.default_rng(0)
EXACT = {"float32": Tolerance(1e-6, 1e-7), "float16": Tolerance(1e-3, 1e-3), "bfloat16": Tolerance(8e-3, 8e-3)}


@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("wrong", ["", "1 % off", "one element off", "sign", "NaN", "unwritten tail"])
def test_wrong_gradients_of_any_size_are_found(dtype: type, scale: float, wrong: str) -> None:
    """With the tolerance of normalisation, whose absolute part is far larger than the small gradients."""
    if dtype is np.float16 and scale != 1.0:
        scale = 1e-3
    truth = GENERATOR.standard_normal((8, 33)) * scale
    benchmark = truth.astype(dtype)
    gradient = (truth * (1.01 if wrong == "1 % off" else 1)).astype(dtype)
    if wrong == "one element off":
        gradient[3, 7] += np.abs(gradient).max() / 4
    if wrong == "sign":
        gradient = -gradient
    if wrong == "NaN":
        gradient[3, 7] = np.nan
    if wrong == "unwritten tail":
        gradient[-1, 20:] = np.frombuffer(b"\xcb" * 13 * gradient.itemsize, dtype)
    finding = comparison.against_benchmark(gradient, truth, benchmark, EXACT[np.dtype(dtype).name])
    assert finding.verdict is (Verdict.FAILED if wrong else Verdict.PASSED)
    if wrong in ("one element off", "NaN"):
        assert finding.worst[0].index == (3, 7)
    if wrong == "1 % off":
        assert finding.figures["slope"] == pytest.approx(1.01, abs=1e-3)


def test_ten_times_the_error_of_pytorch_is_allowed_and_eleven_times_is_not() -> None:
    truth = np.array([1.0, 2.0, -3.0])
    benchmark = truth + np.array([0.0, 0.01, 0.0])
    for error, verdict in ((0.099, Verdict.PASSED), (0.11, Verdict.FAILED)):
        gradient = truth + np.array([0.0, error, 0.0])
        assert comparison.against_benchmark(gradient, truth, benchmark, Tolerance(0, 0)).verdict is verdict


def test_a_gradient_of_rounding_alone_is_noted() -> None:
    truth, benchmark = np.full(4, 1e-17), np.full(4, 2e-9)
    found = comparison.against_benchmark(np.full(4, -1e-8), truth, benchmark, LIMIT)
    assert found.verdict is Verdict.NOTED
    assert "0 but for rounding" in found.message
    assert comparison.against_benchmark(np.full(4, 1e-3), truth, benchmark, LIMIT).verdict is Verdict.FAILED


def test_a_gradient_of_rounding_alone_is_noted_where_pytorch_happens_to_be_exact() -> None:
    """The gradient of a sum behind a normalisation: the mean that is taken off is that of equal numbers."""
    truth, rounding = np.array([1e-17, 0.0, -1e-17]), np.array([1e-8, -1e-8, 2e-8])
    for size, verdict in ((3e-9, Verdict.NOTED), (1e-6, Verdict.FAILED)):
        gradient = np.array([size, size, -size])
        assert comparison.against_benchmark(gradient, truth, truth.copy(), LIMIT, rounding).verdict is verdict
        # What is larger than rounding allows is judged as before.
        large = truth + 1e-3
        assert comparison.against_benchmark(large + 1e-6, large, large, LIMIT, rounding).verdict is Verdict.FAILED


def test_errors_that_leave_no_factor_by_chance_are_no_factor() -> None:
    """Small halves have few bits: each of these is off by at most half a unit in the last place, up or down."""
    exact = np.random.default_rng(0)
    for _ in range(200):
        truth = exact.standard_normal(20) * 2e-6
        unit = 2.0**-24
        benchmark, gradient = (np.floor(truth / unit + exact.uniform(0.3, 0.7, 20)) * unit for _ in range(2))
        assert comparison.against_benchmark(gradient, truth, benchmark, EXACT["float16"]).verdict is Verdict.PASSED


def test_a_factor_is_found_in_equal_elements_of_few_bits() -> None:
    """PyTorch rounds all of them to the same side, by 0.35 %."""
    truth = np.full(400, 1.0 + 0.45 * 2**-7)
    benchmark, gradient = truth.astype(ml_dtypes.bfloat16), (truth * 1.012).astype(ml_dtypes.bfloat16)
    assert comparison.against_benchmark(benchmark, truth, benchmark, EXACT["bfloat16"]).verdict is Verdict.PASSED
    assert comparison.against_benchmark(gradient, truth, benchmark, EXACT["bfloat16"]).verdict is Verdict.FAILED


def test_infinity_and_nan_are_alike_where_pytorch_has_one_of_them() -> None:
    truth, benchmark = np.array([1.0, np.inf, np.nan, -1e6]), np.array([1.0, np.nan, -np.inf, -np.inf], np.float16)
    gradient = np.array([1.0, np.inf, np.nan, np.nan], np.float16)
    assert comparison.against_benchmark(gradient, truth, benchmark, LIMIT).verdict is Verdict.PASSED


def test_what_overflows_in_pytorch_may_overflow() -> None:
    truth = np.array([1.0, 1e6, np.nan, np.inf])
    benchmark = np.array([1.0, np.inf, np.nan, np.inf], np.float16)
    assert comparison.against_benchmark(benchmark.copy(), truth, benchmark, LIMIT).verdict is Verdict.PASSED
    for index in range(4):
        gradient = benchmark.copy()
        gradient[index] = 5
        assert comparison.against_benchmark(gradient, truth, benchmark, LIMIT).verdict is Verdict.FAILED


def test_units_in_the_last_place_are_counted_by_stepping() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        one = np.array([1.0, -1.0, 0.0, 2.0], dtype)
        other = one.copy()
        for _ in range(3):
            other[:3] = np.nextafter(other[:3], dtype(2))
        found = comparison.spread(one, other)
        assert (found["max_ulps"], found["different"]) == (3, 0.75)
        across = comparison.spread(np.nextafter(dtype(0), dtype(-1))[None], np.nextafter(dtype(0), dtype(1))[None])
        assert across["max_ulps"] == 2
    assert comparison.spread(one, one) == {"max_difference": 0, "max_ulps": 0, "different": 0}
    assert comparison.spread(np.array([1, 5]), np.array([1, 2]))["max_ulps"] == 3
    assert comparison.spread(one[:0], one[:0])["different"] == 0
