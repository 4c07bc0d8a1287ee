"""The tolerance of a call's results on a product."""

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
    """Returns the tolerance of a call by its route through the product.

    On a route, an error is relative to the sum of |terms|: the result for the absolute values of the inputs whose
    products are the terms, by default grad_output, because all weights have one sign. If terms cancel, the excess of
    this sum over |result| gives each element a part of its own.
    """
    arguments = arguments_of(spec, inputs, attributes)
    whole = spec.tolerance(arguments, product, arguments.inputs[spec.leading].dtype.name)
    routes = [route for each in spec.returned if (route := whole.of(each.name).route) is not None]
    if not routes:
        return whole
    # Not from `reference`, with which a starting server, whose self-test needs this, would load all of them.
    define = definition_of(spec.name).compute
    given = {each.python_name: inputs[each.name] for each in spec.inputs_of(inputs) if each.name in inputs}
    factors = {name for route in routes for name in route.inputs or (spec.leading,)}
    terms = [each.python_name for each in spec.inputs if each.name in factors]
    positive = {**given, **{name: np.abs(given[name]) for name in terms if isinstance(given.get(name), np.ndarray)}}
    numbers = {name: abs(each) if isinstance(each, float) else each for name, each in attributes.items()}
    with np.errstate(invalid="ignore", over="ignore"):
        pairs = zip(arrays_of(define(**given, **attributes)), arrays_of(define(**positive, **numbers)), strict=True)
        cancelled = [sums - np.abs(truth) for truth, sums in pairs]
    outputs = {
        each.name: _with_elements(whole.of(each.name), beyond)
        for each, beyond in zip(spec.returned, cancelled, strict=True)
    }
    return replace(whole, outputs=outputs) if len(outputs) > 1 else outputs[spec.returned[0].name]


def _with_elements(tolerance: Tolerance, cancelled: Array) -> Tolerance:
    route = tolerance.route
    if route is None:
        return tolerance
    of_elements = route.relative * np.where(np.isfinite(cancelled), cancelled, 0.0).clip(0.0)
    absolute = route.absolute if route.inputs else tolerance.absolute
    return replace(tolerance, absolute=absolute, of_elements=of_elements)


def arguments_of(
    spec: OperatorSpec, inputs: Mapping[str, Array | Sequence[int]], attributes: Mapping[str, AttributeValue | None]
) -> Arguments:
    """Returns the types of a call's inputs, shapes with the leading input's dtype, and all attributes."""
    types = {name: type_of_array(name, each) for name, each in inputs.items() if isinstance(each, np.ndarray)}
    dtype = types[spec.leading].dtype
    shapes = {name: TensorType(dtype, tuple(each)) for name, each in inputs.items() if not isinstance(each, np.ndarray)}
    return Arguments({**types, **shapes}, {**spec.defaults, **attributes})
