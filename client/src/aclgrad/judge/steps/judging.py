"""Compares one step of a program with its definition in float64, on the step's inputs.

The values of a training step are of any size, and gradients are small: the tolerance of samples, whose values are about
1, would hide a wrong gradient of 1e-6. So the absolute part of a tolerance is a share of the largest value. If an
operator's terms cancel, a multiple of the effect of rounding its inputs is allowed in addition.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad._client.programs.steps import Step
from aclgrad.judge.findings.comparison import against_truth
from aclgrad.judge.findings.rows import Finding, Verdict
from aclgrad.judge.steps.recorded import attributes_of
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Arguments, Tolerance
from aclgrad.operators.tolerance import RESULTS
from aclgrad.products import Product
from aclgrad.tensors import TensorType
from aclgrad.tolerances import tolerance_of

Array = np.ndarray[Any, Any]
_OF_MOVED: Final = 10.0
"""Factor for the effect of rounding inputs, as in comparisons with PyTorch's own gradients."""
_IN_FLOAT32: Final = {"float16": 2.0**-13, "bfloat16": 2.0**-16}
"""16-bit kernels compute in float32: ratio of its unit in the last place to the dtype's."""
_UNDEFINED: Final = (ArithmeticError, LookupError, ValueError, MemoryError)
"""A definition's errors for illegal values, such as indices that a wrong step has made."""


def judge_step(
    step: Step, inputs: Mapping[str, Array], results: Mapping[str, Array], product: Product
) -> dict[str, Finding]:
    """Returns the findings about the results of a step, by output; those that it cannot judge are skipped."""
    try:
        with np.errstate(all="ignore"):
            if any(_is_of_floats(each) and np.isnan(each).any() for each in inputs.values()):
                return dict.fromkeys(results, Finding(Verdict.SKIPPED, "an input has NaN"))
            return _judged(step, inputs, results, product)
    except _UNDEFINED as error:
        reason = f"the definition cannot take its inputs: {type(error).__name__}: {error}"
        return dict.fromkeys(results, Finding(Verdict.SKIPPED, reason))


def _judged(
    step: Step, inputs: Mapping[str, Array], results: Mapping[str, Array], product: Product
) -> dict[str, Finding]:
    truths = _define(step, inputs)
    tolerance = tolerance_of(OPERATORS[step.operator], product, inputs, attributes_of(step))
    findings: dict[str, Finding] = {}
    moved: dict[str, Array] = {}
    for name, result in results.items():
        limit = _of_size(tolerance.of(name), truths[name], result.dtype.name)
        found = _compared(result, truths[name], limit)
        if found.verdict is Verdict.FAILED and _is_of_floats(result):
            # Last, because it takes as long as the definition.
            moved = moved or _define(step, {key: _moved(each) for key, each in inputs.items()})
            noise = np.abs(moved[name] - truths[name])
            most = _IN_FLOAT32.get(result.dtype.name, 1.0) * float(
                np.nan_to_num(noise, nan=0.0, posinf=0.0).max(initial=0.0)
            )
            found = _compared(result, truths[name], replace(limit, absolute=limit.absolute + _OF_MOVED * most))
        findings[name] = found
    return findings


def _define(step: Step, inputs: Mapping[str, Array]) -> dict[str, Array]:
    spec = OPERATORS[step.operator]
    types = {name: TensorType.of(each.dtype.name, each.shape) for name, each in inputs.items()}
    arguments = Arguments(types, attributes_of(step))
    if spec.is_skipped(arguments):
        return {each.name: np.zeros(each.infer(arguments).shape) for each in spec.returned}
    given = {each.name: inputs.get(each.name) for each in spec.inputs_of(inputs)}
    made = arrays_of(reference.define(step.operator, given, attributes_of(step)))
    return dict(zip((each.name for each in spec.returned), made, strict=True))


def _of_size(tolerance: Tolerance, truth: Array, dtype: str) -> Tolerance:
    """Returns the tolerance for results of this size, without rounding to the smallest numbers of a dtype."""
    route = tolerance.route
    if truth.dtype.kind in "iub" or (route is not None and route.inputs):
        # Exact, or known from the terms of each element.
        return tolerance
    share = tolerance.absolute if tolerance.share is None else tolerance.share
    largest = float(np.abs(truth[np.isfinite(truth)]).max(initial=0.0))
    least = RESULTS[dtype].absolute if dtype in RESULTS else 0.0
    return replace(tolerance, absolute=max(share * largest, least))


def _compared(result: Array, truth: Array, tolerance: Tolerance) -> Finding:
    """Judges the elements that are finite in the result's dtype; others may overflow in another order."""
    is_judged = np.isfinite(truth.astype(result.dtype)) if _is_of_floats(result) else np.ones(truth.shape, np.bool_)
    if result.size and not is_judged.any():
        return Finding(Verdict.SKIPPED, "no value of the definition is finite")
    # Other elements have the definition's value, so that positions stay the output's.
    found = result if is_judged.all() else np.where(is_judged, result, 0).astype(result.dtype)
    right = truth if is_judged.all() else np.where(is_judged, truth, 0)
    finding = against_truth(found, right, tolerance)
    if finding.verdict is not Verdict.PASSED or not _is_of_floats(result):
        return finding
    return _with_slope(finding, found, right, tolerance)


def _with_slope(finding: Finding, result: Array, truth: Array, tolerance: Tolerance) -> Finding:
    """Returns the finding, failed if a common factor of the elements is more than chance.

    A dtype of few bits would hide a small factor in all elements. Independent errors at their limits move the
    best-fitting factor by their component along the truth; half the relative tolerance may have one sign.
    """
    square = float(np.vdot(truth, truth).real)
    if not square:
        return finding
    slope = float(np.vdot(truth, result.astype(truth.dtype)).real) / square
    chance = float(np.linalg.norm(tolerance.limit(truth) * truth)) / square
    most = tolerance.relative / 2 + chance
    if abs(slope - 1) <= most:
        return finding
    message = f"all elements together are {slope:.6g} times what is right; at most {most:.2g} off is allowed"
    return replace(finding, verdict=Verdict.FAILED, message=message, figures={**finding.figures, "slope": slope})


def _moved(array: Array) -> Array:
    """Returns the values, each moved up or down by a unit in the last place, except 0, where functions jump."""
    if not _is_of_floats(array) or np.iscomplexobj(array):
        return array
    up = np.random.default_rng(0).integers(0, 2, array.shape, dtype=np.int8)
    towards = np.where(up, np.inf, -np.inf).astype(array.dtype)
    return np.where((array == 0) | ~np.isfinite(array), array, np.nextafter(array, towards))


def _is_of_floats(array: Array) -> bool:
    return array.dtype.kind not in "iub"
