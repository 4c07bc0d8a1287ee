"""Compares gradients: with a definition, within a tolerance, and with each other, bit by bit.

A call has one gradient, an array, or a tuple of several.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from aclgrad.judge.findings.rows import Element, Finding, Verdict, error_of
from aclgrad.operators.cases import arrays_of, returned_arrays
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import TensorType

Array = np.ndarray[Any, Any]

_SHOWN: Final = 5
_OF_BENCHMARK: Final = 10.0
"""The allowed multiple of PyTorch's own largest error: msprobe's limit of the largest relative error."""
_SLOPE_ROUNDING: Final = 1e-9
"""The error of a slope's own sums."""


def wrong_type(gradients: Any, expected: Mapping[str, TensorType]) -> Finding | None:
    """Returns a finding if the gradient's shape or dtype is not the operator's, or None."""
    for (name, type), gradient in zip(expected.items(), returned_arrays(gradients), strict=True):
        if gradient.shape != type.shape or gradient.dtype != type.dtype.numpy:
            have = f"{gradient.dtype.name} {gradient.shape}"
            return Finding(Verdict.FAILED, f"{name} is {have} instead of {type.dtype} {type.shape}")
    return None


def each_output(judge: Callable[[Array, Array], Finding], names: Iterable[str], gradients: Any, truth: Any) -> Finding:
    """Returns the finding of the only output, or of the worst, which the message then names."""
    return worst_output(dict(zip(names, map(judge, returned_arrays(gradients), arrays_of(truth)), strict=True)))


def each_against_truth(names: Iterable[str], gradients: Any, truth: Any, tolerance: Tolerance) -> Finding:
    """Returns the finding of `against_truth` about each output, by its own part of the tolerance."""
    pairs = zip(names, returned_arrays(gradients), arrays_of(truth), strict=True)
    return worst_output({name: against_truth(found, right, tolerance.of(name)) for name, found, right in pairs})


def worst_output(found: Mapping[str, Finding]) -> Finding:
    """Returns the only finding, or that of the worst output, which the message then names."""
    if len(found) == 1:
        return next(iter(found.values()))

    def rank(name: str) -> tuple[bool, float]:
        return found[name].verdict is Verdict.FAILED, error_of(found[name].figures.get("error_of_limit", 0.0))

    name = max(found, key=rank)
    worst = found[name]
    return replace(worst, message=f"{name}: {worst.message}" if worst.message else f"worst in {name}")


def against_definition(gradients: Any, truth: Any, types: Mapping[str, TensorType], tolerance: Tolerance) -> Finding:
    """Returns the finding about the gradients of a call: whether they have the types and are within the tolerance."""
    return wrong_type(gradients, types) or each_against_truth(types, gradients, truth, tolerance)


def against_truth(gradient: Array, truth: Array, tolerance: Tolerance) -> Finding:
    """Passes if every element is within `absolute + relative * |truth|` of the definition.

    Relative errors are those of elements whose truth is not 0; `error_of_limit` is the largest error as a share of its
    tolerance.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        wide = gradient.astype(truth.dtype)
        # If the definition has NaN, as for the mean of nothing, NaN is right.
        is_nan = np.isnan(wide) & np.isnan(truth)
        error, limit = (np.where(is_nan, 0, each) for each in (np.abs(wide - truth), tolerance.limit(truth)))
    return _within(gradient, truth, error, limit, tolerance)


def against_benchmark(
    gradient: Array, truth: Array, benchmark: Array, tolerance: Tolerance, rounding: Array | None = None
) -> Finding:
    """Passes if the error is one that PyTorch's own kernel, the `benchmark`, could have made in the same dtype.

    A user's gradients may be of any size, so the tolerance's absolute part is a share of the largest |truth|, and ten
    times the benchmark's largest error is allowed in addition, as in msprobe's benchmark comparison. A dtype of few
    bits would hide a small factor in all elements: `slope`, the best-fitting factor, may differ from 1 by half the
    relative tolerance, by as much as the benchmark's, and by ten times the effect of independent errors of the
    benchmark's size. `rounding` is the effect of rounding the call's inputs on the truth: a gradient of at most ten
    times that is noise, and is only noted.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        exact, own = gradient.astype(truth.dtype), benchmark.astype(truth.dtype)
        # Overflows and infinite inputs may give inf in one order of computation and NaN in another.
        alike = ~np.isfinite(own) & ~np.isfinite(exact)
        is_judged = np.isfinite(truth) & np.isfinite(own) & ~alike
        # Without copies if nothing is left out.
        judged = [each if is_judged.all() else each[is_judged] for each in (exact, own, truth)]
        magnitude, noise = _largest(np.abs(judged[2])), _largest(np.abs(judged[1] - judged[2]))
        moved = 0.0 if rounding is None else _largest(np.abs(rounding[is_judged]))
        is_noise = magnitude <= max(noise, _OF_BENCHMARK * moved)
        noise = max(noise, moved) if is_noise else noise
        error = np.where(alike | (exact == truth), 0.0, np.abs(exact - truth))
        allowed = Tolerance(tolerance.relative, tolerance.of_largest * magnitude + _OF_BENCHMARK * noise)
        limit = allowed.limit(truth)
        finding = _within(gradient, truth, error, np.where(np.isfinite(limit), limit, 0.0), allowed)
        slopes = [_slope(each, judged[2]) for each in judged[:2]]
        chance = _chance(*judged[1:])
    told = replace(finding, figures={**finding.figures, "benchmark_error": noise, "slope": slopes[0]})
    if finding.verdict is Verdict.FAILED:
        return told
    if is_noise:
        message = f"the gradient is 0 but for rounding: at most {magnitude:.2g}, and rounding makes {noise:.2g}"
        return replace(told, verdict=Verdict.NOTED, message=message) if noise else told
    off = abs(slopes[0] - 1)
    most = tolerance.relative / 2 + abs(slopes[1] - 1) + _OF_BENCHMARK * chance + _SLOPE_ROUNDING
    if off > most:
        message = f"all elements together are {slopes[0]:.6g} times what is right; at most {most:.2g} off is allowed"
        return replace(told, verdict=Verdict.FAILED, message=message, worst=_worst(gradient, truth, error, error > 0))
    return told


def spread(first: Array, second: Array) -> dict[str, float]:
    """Returns the difference of two gradients of one call: the largest, units in the last place, share of elements."""
    error = _apart(first, second)
    differs = (_bits(first) != _bits(second)).any(-1)
    return {
        "max_difference": _largest(error[differs]),
        "max_ulps": _largest(_ulps(first, second)),
        "different": float(differs.mean()) if first.size else 0.0,
    }


def furthest(first: Array, second: Array) -> tuple[Element, ...]:
    """Returns the elements that differ most: `computed` is the second's value, `expected` the first's."""
    return _worst(second, first, _apart(first, second), (_bits(first) != _bits(second)).any(-1))


def _within(gradient: Array, truth: Array, error: Array, limit: Array, tolerance: Tolerance) -> Finding:
    magnitude = np.abs(truth)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        outside = ~(error <= limit)
        shares = np.where(error == 0, 0.0, error / limit)
        relative = (error / magnitude)[magnitude > 0]
    count = int(outside.sum())
    figures = {
        "max_error": _largest(error),
        "max_relative_error": _largest(relative),
        "mean_relative_error": float(relative.mean()) if relative.size else 0.0,
        "error_of_limit": _largest(shares),
        "outside": count / max(truth.size, 1),
        "relative_tolerance": tolerance.relative,
        "absolute_tolerance": tolerance.absolute,
    }
    if not count:
        return Finding(Verdict.PASSED, figures=figures)
    worst = _worst(gradient, truth, error, outside)
    at = worst[0].index
    value = gradient[at] if np.iscomplexobj(gradient) else worst[0].computed
    values = f"{value:.9g} at {at} where the definition gives {truth[at]:.9g}"
    return Finding(
        Verdict.FAILED, f"{count} of {truth.size} elements are outside the tolerance: {values}", figures, worst
    )


def _worst(gradient: Array, truth: Array, error: Array, outside: Array) -> tuple[Element, ...]:
    """Returns the elements outside with the largest errors; NaN is worse than any error."""
    ranked = np.where(outside, np.nan_to_num(error, nan=np.inf), -1.0).reshape(-1)
    count = min(_SHOWN, int(outside.sum()))
    chosen = np.argpartition(-ranked, count - 1)[:count] if count else np.empty(0, int)
    cells = [np.unravel_index(each, truth.shape) for each in chosen[np.argsort(-ranked[chosen], kind="stable")]]
    return tuple(Element(tuple(map(int, each)), float(gradient[each].real), float(truth[each].real)) for each in cells)


def _slope(gradient: Array, truth: Array) -> float:
    """Returns the factor by which the truth fits the gradient best."""
    square = float(np.vdot(truth, truth).real)
    return float(np.vdot(truth, gradient).real) / square if square > 0 and math.isfinite(square) else 1.0


def _chance(benchmark: Array, truth: Array) -> float:
    """Returns how far independent errors of the benchmark's size take the slope from 1."""
    size = float(np.linalg.norm(truth)) * math.sqrt(truth.size)
    return float(np.linalg.norm(benchmark - truth)) / size if size > 0 and math.isfinite(size) else 0.0


def _bits(array: Array) -> Array:
    """Returns the elements as unsigned integers; complex ones as both parts along a last axis."""
    parts = np.ascontiguousarray(array).reshape(*array.shape, 1)
    size = array.dtype.itemsize // (2 if np.iscomplexobj(array) else 1)
    return parts.view(f"u{size}")


def _ulps(first: Array, second: Array) -> Array:
    """Returns the distance of the elements in units in the last place; for integers, their difference."""
    if first.dtype.kind in "iub":
        return np.abs(first.astype(np.float64) - second.astype(np.float64))
    ordered = []
    for array in (first, second):
        bits = _bits(array)
        half = 1 << (8 * bits.itemsize - 1)
        # The integers of floats are ordered like the floats if negative ones are counted backwards.
        ordered.append((bits & (half - 1)).astype(np.int64) * np.where(bits < half, 1, -1))
    one, other = ordered
    # In integers, because doubles would round; with different signs, their sum could overflow.
    is_exact = (one < 0) == (other < 0)
    exact = np.abs(np.where(is_exact, one, 0) - np.where(is_exact, other, 0)).astype(np.float64)
    return np.where(is_exact, exact, np.abs(one.astype(np.float64)) + np.abs(other.astype(np.float64)))


def zeros(gradient: Array, untouched: Array) -> Finding:
    """Passes if every untouched element is exactly 0."""
    wrong = untouched & ~(gradient == 0)
    figures = {"zero_elements": float(untouched.sum()), "wrong_elements": float(wrong.sum())}
    if not wrong.any():
        return Finding(Verdict.PASSED, figures=figures)
    at = tuple(int(each[0]) for each in np.nonzero(wrong))
    message = f"{int(wrong.sum())} elements that receive no gradient are not 0: {gradient[at]} at {at}"
    return Finding(Verdict.FAILED, message, figures)


def same_bits(first: Any, second: Any) -> bool:
    """Returns whether the gradients of two calls have the same types, shapes and bytes."""
    return all(map(_same_bits, returned_arrays(first), returned_arrays(second)))


def _same_bits(first: Array, second: Array) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def difference(first: Any, second: Any) -> str:
    """Describes the first difference of the gradients of two calls whose bits differ."""
    pairs = zip(returned_arrays(first), returned_arrays(second), strict=True)
    return next(_difference(*pair) for pair in pairs if not _same_bits(*pair))


def _difference(first: Array, second: Array) -> str:
    if first.shape != second.shape or first.dtype != second.dtype:
        return f"{first.dtype.name} {first.shape} and {second.dtype.name} {second.shape}"
    cells = int((_bits(first) != _bits(second)).any(-1).sum())
    return f"{cells} of {first.size} elements differ, by up to {_largest(_apart(first, second)):.3g}"


def _apart(first: Array, second: Array) -> Array:
    """Returns |first - second| in float64."""
    wide = np.complex128 if np.iscomplexobj(first) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        return np.abs(first.astype(wide) - second.astype(wide))


def _largest(values: Array) -> float:
    return float(values.max()) if values.size else 0.0
