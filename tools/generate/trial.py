"""Tries an operator's parts on small calls, so that `make generate` says in a second what the tests say in minutes."""

from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from types import ModuleType
from typing import Any, Final

import numpy as np

from aclgrad.operators.samples import Case, Samples
from aclgrad.operators.spec import OperatorSpec
from aclgrad.products import Product
from aclgrad.tensors import TensorType

_LONG_CELLS: Final = 2**16


def failures(spec: OperatorSpec, samples: Samples, definition: ModuleType) -> Iterator[str]:
    """Yields what fails on the operator's picture, or else the products that have no long call."""
    try:
        _compute(spec, samples, definition)
        without = [product for product in sorted(spec.products) if not any(_long_calls(spec, samples, product))]
    except Exception as error:  # whatever the author's code may raise
        yield f"operator {spec.name} fails when it is tried on SAMPLES.picture and SAMPLES.long: {described(error)}"
        return
    for product in without:
        yield (
            f"operator {spec.name} has no long call on product {product}; let SAMPLES.long in its samples.py yield "
            "legal cases of the given number of cells: a row, a column, a plane"
        )


def described(error: Exception) -> str:
    """Returns the text of an error, after its type if it does not say enough alone."""
    return str(error) if isinstance(error, ImportError | ValueError) else f"{type(error).__name__}: {error}"


def _compute(spec: OperatorSpec, samples: Samples, definition: ModuleType) -> None:
    """Raises ValueError if spec and definition disagree, or whatever one of them raises."""
    generator = np.random.default_rng(0)
    arguments = samples.picture.arguments(spec, next(iter(spec.tolerances)))
    outputs = {each.of: each.infer(arguments) for each in spec.outputs}
    arrays = samples.values(generator, samples.picture, _normal(generator, arguments.inputs))
    given = {**arrays, **arguments.attributes}
    gradients = _called(definition.backward, given)
    shapes = [each.shape for each in (gradients if isinstance(gradients, tuple) else (gradients,))]
    expected = [each.shape for each in outputs.values()]
    if shapes != expected:
        raise ValueError(f"definition.backward returns the shapes {shapes}, and the outputs of spec.py have {expected}")
    _called(definition.forward, _normal(generator, outputs) | given)


def _normal(generator: np.random.Generator, types: Mapping[str, TensorType]) -> dict[str, Any]:
    return {name: generator.standard_normal(each.shape).astype(each.dtype.numpy) for name, each in types.items()}


def _called(function: Callable[..., Any], given: Mapping[str, Any]) -> Any:
    renamed = {"input" if name == "self" else name: value for name, value in given.items()}
    return function(**{name: renamed[name] for name in signature(function).parameters if name in renamed})


def _long_calls(spec: OperatorSpec, samples: Samples, product: Product) -> Iterator[Case]:
    """Yields the legal cases whose larger tensor has at least half of the cells."""
    for case in samples.long(_LONG_CELLS):
        for dtype in spec.inputs[0].dtypes[product]:
            arguments = case.arguments(spec, dtype)
            tensors = (*arguments.inputs.values(), *(each.infer(arguments) for each in spec.outputs))
            is_long = max(each.element_count for each in tensors) >= _LONG_CELLS / 2
            if is_long and not list(spec.check(arguments, product)):
                yield case
