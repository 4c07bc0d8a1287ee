"""Compares gradients: with a definition, within a tolerance, and with each other, bit by bit.

A call has one gradient, an array, or a tuple of several.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from aclgrad.judgement.rows import Finding, Verdict
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import TensorType

Array = np.ndarray[Any, Any]


def wrong_type(gradients: Any, expected: Mapping[str, TensorType]) -> Finding | None:
    """Returns the finding about a gradient of another shape or dtype than the operator has, or None."""
    for (name, type), gradient in zip(expected.items(), arrays_of(gradients), strict=True):
        if gradient.shape != type.shape or gradient.dtype != type.dtype.numpy:
            have = f"{gradient.dtype.name} {gradient.shape}"
            return Finding(Verdict.FAILED, f"{name} is {have} instead of {type.dtype} {type.shape}")
    return None


def each_output(judge: Callable[[Array, Array], Finding], names: Iterable[str], gradients: Any, truth: Any) -> Finding:
    """Returns the finding of the only output, or of the one that is worst, which the message then names."""
    found = dict(zip(names, map(judge, arrays_of(gradients), arrays_of(truth)), strict=True))
    if len(found) == 1:
        return next(iter(found.values()))
    name = max(found, key=lambda each: (found[each].verdict is Verdict.FAILED, _badness(found[each])))
    worst = found[name]
    return replace(worst, message=f"{name}: {worst.message}" if worst.message else f"worst in {name}")


def _badness(finding: Finding) -> float:
    """Returns how near to its limit the output is."""
    return finding.figures.get("error_of_limit") or 0.0


def against_truth(gradient: Array, truth: Array, tolerance: Tolerance) -> Finding:
    """Passes if every element is within `absolute + relative * |truth|` of the definition.

    Relative errors are those of the elements whose truth is not 0; `error_of_limit` is the largest error as a share of
    what the tolerance allows there.
    """
    magnitude = np.abs(truth)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        error = np.abs(gradient.astype(truth.dtype) - truth)
        limit = tolerance.limit(truth)
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
    worst = np.unravel_index(np.argmax(np.where(outside, np.nan_to_num(error, nan=np.inf), -1.0)), truth.shape)
    place = tuple(map(int, worst))
    values = f"{gradient[worst]} at {place} where the definition gives {truth[worst]:.9g}"
    return Finding(Verdict.FAILED, f"{count} of {truth.size} elements are outside the tolerance: {values}", figures)


def zeros(gradient: Array, untouched: Array) -> Finding:
    """Passes if every untouched element is exactly 0."""
    wrong = untouched & ~(gradient == 0)
    figures = {"zero_elements": float(untouched.sum()), "wrong_elements": float(wrong.sum())}
    if not wrong.any():
        return Finding(Verdict.PASSED, figures=figures)
    place = tuple(int(each[0]) for each in np.nonzero(wrong))
    message = f"{int(wrong.sum())} elements that receive no gradient are not 0: {gradient[place]} at {place}"
    return Finding(Verdict.FAILED, message, figures)


def same_bits(first: Any, second: Any) -> bool:
    """Says whether the gradients of two calls have the same types, shapes and bytes."""
    return all(map(_same_bits, arrays_of(first), arrays_of(second)))


def _same_bits(first: Array, second: Array) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def difference(first: Any, second: Any) -> str:
    """Describes the first difference of the gradients of two calls whose bits differ."""
    pairs = zip(arrays_of(first), arrays_of(second), strict=True)
    return next(_difference(*pair) for pair in pairs if not _same_bits(*pair))


def _difference(first: Array, second: Array) -> str:
    if first.shape != second.shape or first.dtype != second.dtype:
        return f"{first.dtype.name} {first.shape} and {second.dtype.name} {second.shape}"
    wide = np.complex128 if np.iscomplexobj(first) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(first.astype(wide) - second.astype(wide))
    cells = int((first.view(np.uint8) != second.view(np.uint8)).reshape(*first.shape, -1).any(-1).sum())
    return f"{cells} of {first.size} elements differ, by up to {_largest(error):.3g}"


def _largest(values: Array) -> float:
    return float(values.max()) if values.size else 0.0
