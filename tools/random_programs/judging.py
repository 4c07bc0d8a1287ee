"""Whether the results of a program are right: by the definitions, and bit by bit by steps that nothing connects."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from google.rpc import status_pb2
from numpy.lib.stride_tricks import as_strided

from aclgrad import reference
from aclgrad.errors import from_status
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.tensors import View
from tools.random_programs.drawing import Array, DrawnProgram, DrawnStep, Given, arguments_of
from tools.random_programs.sending import Result

LARGEST: Final = 30.0
"""Values of inputs up to which a definition judges: beyond, rounding of a chain says more than the operator."""
_SLACK: Final = 2.0**-12
"""Of the largest value: far more than rounding, far less than a tensor in a wrong place."""


def array_of(given: Given, program: DrawnProgram, results: Sequence[Result]) -> Array:
    """Returns the values of an input, given those of the earlier steps."""
    if given.array is not None:
        return given.array
    if given.entry is not None:
        whole = program.table[given.entry]
    else:
        assert given.step is not None
        result = results[given.step]
        assert isinstance(result, dict)
        whole = result[given.output]
    return whole if given.view is None else lay_over(whole, given.view, given.type.shape)


def lay_over(whole: Array, view: View, shape: tuple[int, ...]) -> Array:
    """Returns a copy of the view of an array's elements."""
    if 0 in shape:
        return np.zeros(shape, whole.dtype)
    flat = np.ascontiguousarray(whole).reshape(-1)
    strides = [each * whole.itemsize for each in view.strides_of(shape)]
    return as_strided(flat[view.offset :], shape, strides).copy()


def disconnected(program: DrawnProgram, results: Sequence[Result]) -> DrawnProgram:
    """Returns the steps that succeeded with the values of all inputs, so that nothing connects them."""
    steps = []
    for step, result in zip(program.steps, results, strict=True):
        if isinstance(result, dict):
            inputs = [Given(each.name, each.type, array_of(each, program, results)) for each in step.inputs]
            steps.append(DrawnStep(step.operator, inputs, step.attributes, step.outputs, step.types))
    return DrawnProgram(steps)


def problems(program: DrawnProgram, results: Sequence[Result]) -> Iterator[str]:
    """Yields what is wrong with the results of all steps, of which everything was returned."""
    failed = program.failed()
    if len(results) != len(program.steps):
        yield f"{len(results)} results of {len(program.steps)} steps"
        return
    for number, (step, result) in enumerate(zip(program.steps, results, strict=True)):
        if isinstance(result, status_pb2.Status):
            yield from _problems_of_status(number, result, failed)
        elif number in failed:
            yield f"step {number} ({step.operator}) should have failed"
        else:
            yield from _problems_of_values(number, step, program, results)


def _problems_of_status(number: int, status: status_pb2.Status, failed: dict[int, int]) -> Iterator[str]:
    error = from_status(status)
    if error is None or number not in failed:
        yield f"step {number} failed: {status.message}"
    elif failed[number] == number:
        if error.reason != "INVALID_FIELD":
            yield f"step {number} failed with {error.reason}: {error}"
    elif (error.reason, error.metadata.get("step")) != ("INPUT_FAILED", str(failed[number])):
        yield f"step {number} failed with {error.reason} {error.metadata}, not because of step {failed[number]}"


def _problems_of_values(
    number: int, step: DrawnStep, program: DrawnProgram, results: Sequence[Result]
) -> Iterator[str]:
    result = results[number]
    assert isinstance(result, dict)
    if list(result) != list(step.types):
        yield f"step {number} returned {list(result)}, not {list(step.types)}"
        return
    inputs = {each.name: array_of(each, program, results) for each in step.inputs}
    floats = [np.abs(each).max(initial=0.0) for each in inputs.values() if each.dtype.kind == "f"]
    largest = float(max(floats, default=0.0))
    if not largest <= LARGEST:  # NaN, too
        return
    spec = OPERATORS[step.operator]
    attributes = arguments_of(step).attributes
    with np.errstate(all="ignore"):
        made = arrays_of(reference.define(step.operator, _complete(step, inputs), attributes))
    truths = dict(zip((each.name for each in spec.outputs), made, strict=True))
    for name, array in result.items():
        truth = truths[name]
        if not np.isfinite(truth).all():
            continue
        limit = _SLACK * max(1.0, largest**2, float(np.abs(truth).max(initial=0.0)))
        worst = float(np.abs(array.astype(np.float64) - truth).max(initial=0.0))
        if not worst <= limit:
            yield f"step {number} ({step.operator}) output {name} is off by {worst:.3g} of {limit:.3g}"


def _complete(step: DrawnStep, inputs: dict[str, Array]) -> dict[str, Array | None]:
    return {each.name: inputs.get(each.name) for each in OPERATORS[step.operator].inputs}


def same_bits(first: Sequence[Result], second: Sequence[Result]) -> Iterator[str]:
    """Yields where two lists of results of the same steps differ; a status is the same as another of its code."""
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if isinstance(one, dict) and isinstance(other, dict):
            for name in other:
                if one[name].tobytes() != other[name].tobytes():
                    yield f"step {number} output {name} has other bits"
        elif isinstance(one, dict) or isinstance(other, dict) or one.code != other.code:
            yield f"step {number} failed once"
