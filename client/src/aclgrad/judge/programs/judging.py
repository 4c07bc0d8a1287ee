"""The definitions' results of a program's steps, each for its actual inputs, and the tolerances."""

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
"""The name in bundles of what computed expected values."""
LARGEST: Final = 30.0
"""A definition judges inputs up to this size; beyond, rounding of a chain outweighs the operator."""
_OF_SAMPLES: Final = 6.0
"""An operator's own tolerance holds up to this size, that of its standard normal samples."""
_LARGE: Final = 300.0
"""Softmax statistics count as those of the other inputs if results are at most this large."""
_SLACK: Final = 2.0**-12
"""Share of the largest value beyond that: far more than rounding, far less than a misplaced tensor."""


@dataclass(frozen=True, slots=True, eq=False)
class Expected:
    """The outputs of a step by its definition, without those that overflow their dtype, and the tolerance."""

    truths: Mapping[str, Array]
    tolerance: Tolerance


def expected_of(step: Step, inputs: Mapping[str, Value], product: Product) -> Expected | None:
    """Returns the definition's results for these inputs, or None if it cannot judge them."""
    spec = OPERATORS[step.operator]
    statistics = {each.name for each in spec.inputs if each.lanes}
    with np.errstate(invalid="ignore"):  # a NaN of bfloat16
        # The divisor of a softmax makes results smaller, so it only counts if it is negative.
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
    """Yields the second results' outputs whose bits differ from the first; failed steps have none."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if not isinstance(one, AclgradError) and not isinstance(other, AclgradError):
            yield from ((number, name) for name in other if one[name].tobytes() != other[name].tobytes())
