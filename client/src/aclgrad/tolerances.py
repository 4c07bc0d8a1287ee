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
    attributes: Mapping[str, AttributeValue | None],
) -> Tolerance:
    """Returns the tolerance of a call by its way through the product.

    On a route an error is relative to the sum of |terms|, of operators with one output. That is the result for the
    sizes of the inputs that terms are products of: by default of grad_output, as all weights have one sign. What it
    exceeds |result| by, because terms cancel, gives each element a part of its own.
    """
    arguments = arguments_of(spec, inputs, attributes)
    tolerance = spec.tolerance(arguments, product, arguments.inputs[spec.leading].dtype.name)
    route = tolerance.route
    if route is None:
        return tolerance
    # Not of `reference`: a server that starts, whose test needs this, would load all of them.
    define = definition_of(spec.name).compute
    given = {each.python_name: inputs[each.name] for each in spec.inputs if each.name in inputs}
    terms = [each.python_name for each in spec.inputs if each.name in (route.inputs or (spec.leading,))]
    positive = {**given, **{name: np.abs(given[name]) for name in terms}}
    factors = {name: abs(each) if isinstance(each, float) else each for name, each in attributes.items()}
    with np.errstate(invalid="ignore", over="ignore"):
        (truth,), (sums,) = arrays_of(define(**given, **attributes)), arrays_of(define(**positive, **factors))
        cancelled = sums - np.abs(truth)
    of_elements = route.relative * np.where(np.isfinite(cancelled), cancelled, 0.0).clip(0.0)
    absolute = route.absolute if route.inputs else tolerance.absolute
    return replace(tolerance, absolute=absolute, of_elements=of_elements)


def arguments_of(
    spec: OperatorSpec, inputs: Mapping[str, Array | Sequence[int]], attributes: Mapping[str, AttributeValue | None]
) -> Arguments:
    """Returns the types of a call's inputs, a shape's dtype being that of the leading input, and all attributes."""
    types = {name: type_of_array(name, each) for name, each in inputs.items() if isinstance(each, np.ndarray)}
    dtype = types[spec.leading].dtype
    shapes = {name: TensorType(dtype, tuple(each)) for name, each in inputs.items() if not isinstance(each, np.ndarray)}
    return Arguments({**types, **shapes}, {**spec.defaults, **attributes})
