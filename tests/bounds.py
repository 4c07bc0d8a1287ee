"""Whether a gradient is that of the definition, within the tolerance of the operator."""

import numpy as np

from aclgrad import reference
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.samples import Arrays
from aclgrad.products import Product


def assert_defined(typed: TypedCase, gradient: np.ndarray, product: Product, arrays: Arrays | None = None) -> None:
    """Arrays: the inputs if they are not the sample's.

    Sums of both signs cancel, so an error may be relative to the gradient of |grad_output|, the sum of the absolute
    values. Weights of both signs cancel there, so it may also be relative to the gradient itself.
    """
    given = typed.arrays() if arrays is None else arrays
    truth = _define(typed, given)
    assert gradient.shape == truth.shape
    tolerance = typed.spec.tolerance(product, typed.dtype)
    error = np.abs(gradient.astype(truth.dtype) - truth)
    if (error <= tolerance.limit(truth)).all():
        return
    magnitude = np.abs(_define(typed, given | {"grad_output": np.abs(given["grad_output"])}))
    assert (error <= tolerance.limit(np.maximum(np.abs(truth), magnitude))).all(), f"{typed} {typed.case}"


def _define(typed: TypedCase, arrays: Arrays) -> np.ndarray:
    return reference.define(typed.spec.name, arrays, typed.attributes)
