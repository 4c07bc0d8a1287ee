"""Whether gradients are those of the definition, within the tolerance of the operator."""

from typing import Any

import numpy as np

from aclgrad.operators.cases import TypedCase, arrays_of, returned_arrays
from aclgrad.operators.parts import samples_of
from aclgrad.operators.samples import Arrays
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.tolerances import tolerance_of
from aclgrad.truths import truths_of


def assert_defined(typed: TypedCase, gradients: Any, product: Product, arrays: Arrays | None = None) -> None:
    """Gradients: an array, or a tuple of several, None for one that is not wanted. Arrays: the inputs if they are not
    the sample's.

    Sums of both signs cancel, so an error may be relative to the gradient of |grad_output|, the sum of the absolute
    values. Weights of both signs cancel there, so it may also be relative to the gradient itself, or to its largest
    element if there are many.
    """
    given = typed.arrays() if arrays is None else arrays
    truths = truths_of(typed, given)
    tolerance = tolerance_of(typed.spec, product, given, typed.attributes)
    for position, (gradient, truth) in enumerate(zip(arrays_of(gradients), truths, strict=True)):
        if gradient is None:
            continue
        assert gradient.shape == truth.shape
        name = typed.spec.returned[position].name
        own = tolerance.of(name)
        error = _errors(gradient, truth)
        if (error <= own.limit(np.nan_to_num(truth))).all():
            continue
        magnitude = truths_of(typed, given | {"grad_output": np.abs(given["grad_output"])})[position]
        scale = np.maximum(np.abs(truth), np.abs(magnitude))
        if samples_of(typed.spec.name).has_signed_weights:
            scale = scale.max()
        assert (error <= own.limit(scale)).all(), f"{typed} {name} {typed.case}"


def _errors(found: np.ndarray[Any, Any], truth: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns how far results are from the truth; NaN, which the mean of nothing is, is right where that is NaN."""
    wide = found.astype(truth.dtype)
    return np.where(np.isnan(wide) & np.isnan(truth), 0, np.abs(wide - truth))


def assert_near(typed: TypedCase, gradients: Any, product: Product) -> None:
    """The same for each element alone, and for its type; bits are equal where nothing is computed."""
    tolerance = tolerance_of(typed.spec, product, typed.arrays(), typed.attributes)
    truths = truths_of(typed, typed.arrays())
    for gradient, truth, (name, type) in zip(returned_arrays(gradients), truths, typed.outputs.items(), strict=True):
        assert (gradient.dtype, gradient.shape) == (type.dtype.numpy, truth.shape), f"{typed} {name}"
        if tolerance == Tolerance(0.0, 0.0):
            np.testing.assert_array_equal(gradient, truth, f"{typed} {name}")
        else:
            error = _errors(gradient, truth)
            assert (error <= tolerance.of(name).limit(np.nan_to_num(truth))).all(), f"{typed} {name}"


def bits_of(gradients: Any) -> list[tuple[str, tuple[int, ...], bytes]]:
    """Returns what two equal results have in common: type, shape and bytes of each gradient."""
    return [(each.dtype.name, each.shape, each.tobytes()) for each in returned_arrays(gradients)]
