"""What the definitions give for the steps of a program, each from the inputs that it had, and how near is right."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from aclgrad import reference
from aclgrad.errors import AclgradError
from aclgrad.judge.programs.program import Array, Result, Returned, Step, Value
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.tolerances import tolerance_of

DEFINITION: Final = "the definition"
"""What computed expected values, as bundles have it."""
LARGEST: Final = 30.0
"""Values of inputs up to which a definition judges: beyond, rounding of a chain says more than the operator."""
_OF_SAMPLES: Final = 6.0
"""Values up to which an operator's own tolerance holds: those of its samples, which are standard normal."""
_LARGE: Final = 300.0
"""Results that statistics of a softmax may give up to which they are taken for those of the other inputs."""
_SLACK: Final = 2.0**-12
"""Of the largest value beyond: far more than rounding, far less than a tensor in a wrong place."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The outputs of a step by its definition, without those beyond their dtype, and how far results may be off."""

    truths: Mapping[str, Array]
    tolerance: Tolerance


def expected_of(step: Step, inputs: Mapping[str, Value], product: Product) -> Expected | None:
    """Returns what the definition gives for these inputs, or None for inputs that it cannot judge."""
    spec = OPERATORS[step.operator]
    statistics = {each.name for each in spec.inputs if each.lanes}
    with np.errstate(invalid="ignore"):  # a NaN of bfloat16
        # What a softmax is divided by makes results smaller, so it counts below 0 alone.
        floats = {name: np.asarray(each) for name, each in inputs.items() if _is_of_floats(each)}
        sizes = [_largest(-np.minimum(each, 0) if name in statistics else each) for name, each in floats.items()]
    largest = max(sizes, default=0.0)
    if not largest <= LARGEST:  # NaN, too
        return None
    complete = {each.name: inputs.get(each.name) for each in spec.inputs_of(inputs)}
    with np.errstate(all="ignore"):
        made = arrays_of(reference.define(step.operator, complete, {**spec.defaults, **step.attributes}))
        named = dict(zip((each.name for each in spec.returned), made, strict=True))
        truths = {
            name: named[name]
            for name, type in step.types.items()
            if np.isfinite(named[name].astype(type.dtype.numpy)).all()
        }
        tolerance = tolerance_of(spec, product, inputs, step.attributes)
    if statistics and any(_largest(each) > _LARGE for each in truths.values()):
        return None
    if max([largest, *(_largest(each) for each in truths.values() if statistics)]) > _OF_SAMPLES:
        slack = {name: _with_slack(tolerance.of(name), largest, each) for name, each in truths.items()}
        tolerance = Tolerance(0.0, 0.0, outputs=slack)
    return Expected(truths, tolerance)


def _is_of_floats(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "iub"


def _largest(values: Array) -> float:
    return float(np.abs(values).max(initial=0.0))


def _with_slack(tolerance: Tolerance, largest: float, truth: Array) -> Tolerance:
    size = max(largest**2, _largest(truth))
    return replace(tolerance, absolute=tolerance.absolute + _SLACK * size)


def other_bits(first: Sequence[Result], second: Sequence[Result]) -> Iterator[Returned]:
    """Yields the outputs of the second results whose bits are not those of the first; failed steps have none."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if not isinstance(one, AclgradError) and not isinstance(other, AclgradError):
            yield from ((number, name) for name in other if one[name].tobytes() != other[name].tobytes())
