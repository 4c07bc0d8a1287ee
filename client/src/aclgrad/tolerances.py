"""How far the results of a call may be from its definition on a product."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from aclgrad.operators.cases import arrays_of
from aclgrad.operators.parts import definition_of
from aclgrad.operators.spec import Arguments, OperatorSpec, Tolerance
from aclgrad.products import Product
from aclgrad.tensors import TensorType, type_of_array
from aclgrad.wire.values import AttributeValue

Array = np.ndarray[Any, Any]


def tolerance_of(
    spec: OperatorSpec,
    product: Product,
    inputs: Mapping[str, Array | Sequence[int]],
    attributes: Mapping[str, AttributeValue],
) -> Tolerance:
    """Returns the tolerance of a call by its way through the product.

    On a route of less precision an error is relative to the sum of |terms|. That is the gradient of |grad_output|, as
    all weights of these operators, which have one output, have one sign. What it exceeds |gradient| by, because terms
    cancel, gives each element a part of its own.
    """
    arguments = arguments_of(spec, inputs, attributes)
    tolerance = spec.tolerance(arguments, product, arguments.inputs[spec.leading].dtype.name)
    if tolerance.route is None:
        return tolerance
    # Not of `reference`: a server that starts, whose test needs this, would load all of them.
    define = definition_of(spec.name).compute
    given = {each.python_name: inputs[each.name] for each in spec.inputs if each.name in inputs}
    leading = spec.leading_input.python_name
    positive = {**given, leading: np.abs(given[leading])}
    (truth,), (sums,) = (arrays_of(define(**each, **attributes)) for each in (given, positive))
    with np.errstate(invalid="ignore"):
        cancelled = sums - np.abs(truth)
    of_elements = tolerance.route.relative * np.where(np.isfinite(cancelled), cancelled, 0.0).clip(0.0)
    return replace(tolerance, of_elements=of_elements)


def arguments_of(
    spec: OperatorSpec, inputs: Mapping[str, Array | Sequence[int]], attributes: Mapping[str, AttributeValue]
) -> Arguments:
    """Returns the types of a call's inputs, a shape's dtype being that of the leading input, and all attributes."""
    types = {name: type_of_array(name, each) for name, each in inputs.items() if isinstance(each, np.ndarray)}
    dtype = types[spec.leading].dtype
    shapes = {name: TensorType(dtype, tuple(each)) for name, each in inputs.items() if not isinstance(each, np.ndarray)}
    return Arguments({**types, **shapes}, {**spec.defaults, **attributes})
