"""Compares gradients: with a definition, within a tolerance, and with each other, bit by bit."""

from typing import Any

import numpy as np

from aclgrad.check.rows import Finding, Verdict
from aclgrad.operators.spec import Tolerance
from aclgrad.tensors import TensorType

Array = np.ndarray[Any, Any]


def wrong_type(gradient: Array, expected: TensorType) -> Finding | None:
    """Returns the finding about a gradient of another shape or dtype than the operator has, or None."""
    if gradient.shape == expected.shape and gradient.dtype == expected.dtype.numpy:
        return None
    have = f"{gradient.dtype.name} {gradient.shape}"
    return Finding(Verdict.FAILED, f"the gradient is {have} instead of {expected.dtype} {expected.shape}")


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


def zeros(gradient: Array, truth: Array) -> Finding:
    """Passes if every element that receives no gradient is exactly 0."""
    untouched = truth == 0
    wrong = untouched & ~(gradient == 0)
    figures = {"zero_elements": float(untouched.sum()), "wrong_elements": float(wrong.sum())}
    if not wrong.any():
        return Finding(Verdict.PASSED, figures=figures)
    place = tuple(int(each[0]) for each in np.nonzero(wrong))
    message = f"{int(wrong.sum())} elements that receive no gradient are not 0: {gradient[place]} at {place}"
    return Finding(Verdict.FAILED, message, figures)


def same_bits(first: Array, second: Array) -> bool:
    """Says whether two gradients have the same type, shape and bytes."""
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def difference(first: Array, second: Array) -> str:
    """Describes the difference of two gradients whose bits differ."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return f"{first.dtype.name} {first.shape} and {second.dtype.name} {second.shape}"
    wide = np.complex128 if np.iscomplexobj(first) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(first.astype(wide) - second.astype(wide))
    cells = int((first.view(np.uint8) != second.view(np.uint8)).reshape(*first.shape, -1).any(-1).sum())
    return f"{cells} of {first.size} elements differ, by up to {_largest(error):.3g}"


def _largest(values: Array) -> float:
    return float(values.max()) if values.size else 0.0
