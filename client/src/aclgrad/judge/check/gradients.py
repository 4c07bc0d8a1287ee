"""Checks of gradients by the definitions: accuracy, layouts of masks, untouched elements and saved statistics."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.check.target import Selection, Target, free_inputs, patterned, task
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.program import one_step
from aclgrad.masks import mask_of_argmax
from aclgrad.operators.cases import TypedCase, arrays_of, returned_arrays
from aclgrad.operators.samples import Arrays
from aclgrad.operators.spec import OperatorKind
from aclgrad.operators.values import ArgmaxRule, VarianceRule
from aclgrad.tolerances import tolerance_of

_OPERATOR, _CASE, _INPUT = "batch_norm_backward", "planes", "save_invstd"
VARIANCE, RECIPROCAL = "the variance", "the reciprocal 1 / sqrt(var + eps)"
_READINGS: Final[dict[str, Callable[[Any, float], Any]]] = {
    VARIANCE: lambda saved, eps: 1 / np.sqrt(saved + eps),
    RECIPROCAL: lambda saved, eps: saved,
}
"""From the value that the device gets to the reciprocal that it uses."""
_SCALE: Final = 3.0
"""The batch's standard deviation: near 1, a variance and its reciprocal are almost equal."""


def accuracy(selection: Selection) -> Iterator[Task]:
    """Every case with every dtype is within its tolerance of the float64 definition of the same rounded inputs."""
    target = selection.target
    for name, typed in selection.named():
        yield task(target, "accuracy", typed, partial(_accuracy, target, typed), name)


def layouts(selection: Selection) -> Iterator[Task]:
    """Gradients from the device's own mask and from the equivalent argmax have the same bits."""
    target = selection.target
    for typed in selection.of_first_dtype():
        arguments = typed.arguments
        for input in typed.spec.inputs:
            rule = input.values(arguments, target.product) if input.name in arguments.inputs else None
            if isinstance(rule, ArgmaxRule) and arguments.inputs[input.name].dtype is not rule.mask.dtype:
                yield task(target, "layouts", typed, partial(_layout, target, typed, input.name, rule))


def fills(selection: Selection) -> Iterator[Task]:
    """Elements that receive no gradient are 0, even in memory that was filled with 0xCB."""
    target = selection.target
    for typed in selection.of_first_dtype():
        if typed.spec.kind is OperatorKind.GRADIENT:
            yield task(target, "fills", typed, partial(_fill, target, typed))


def _accuracy(target: Target, typed: TypedCase) -> Finding:
    inputs, outputs = typed.arrays(), typed.outputs
    tolerance = tolerance_of(typed.spec, target.product, inputs, typed.case.attributes)
    gradients = target.client.execute(typed.spec.name, inputs, typed.case.attributes)
    truth = reference.define(typed.spec.name, inputs, typed.case.attributes)
    finding = comparison.against_definition(gradients, truth, outputs, tolerance)
    judged = JudgedProgram.of_call(
        one_step(typed.spec, inputs, typed.case.attributes),
        gradients=dict(zip(outputs, returned_arrays(gradients), strict=True)),
        expected=dict(zip(outputs, arrays_of(truth), strict=True)),
        computed_by=DEFINITION,
        tolerance=tolerance,
    )
    return replace(finding, judged=judged)


def _layout(target: Target, typed: TypedCase, name: str, rule: ArgmaxRule) -> Finding:
    inputs = typed.arrays()
    mask = mask_of_argmax(inputs[name], rule.pooling, rule.layout)
    gradients = [
        target.client.execute(typed.spec.name, {**inputs, name: each}, typed.case.attributes)
        for each in (inputs[name], mask)
    ]
    if comparison.same_bits(*gradients):
        return Finding(Verdict.PASSED, f"{rule.layout.value}")
    how = comparison.difference(*gradients)
    return Finding(Verdict.FAILED, f"{rule.layout.value}: of the gradients of argmax and mask {how}")


def _fill(target: Target, typed: TypedCase) -> Finding:
    """Gradients of ones: an element that nothing reaches is 0, for other inputs, too.

    An element that is 0 because terms cancel, as in a softmax of one element, is not 0 for inputs that do not fit each
    other.
    """
    arrays, free = typed.arrays(), free_inputs(target, typed)
    target.sender.execute(typed.spec.name, patterned(arrays, free), typed.case.attributes)
    leading = typed.spec.leading
    inputs = {**arrays, leading: np.ones_like(arrays[leading])}
    gradients = target.client.execute(typed.spec.name, inputs, typed.case.attributes)
    if wrong := comparison.wrong_type(gradients, typed.outputs):
        return wrong
    ways = (inputs, arrays, _apart(arrays, free))
    truths = [arrays_of(reference.define(typed.spec.name, each, typed.case.attributes)) for each in ways]
    untouched = tuple(
        np.logical_and.reduce([each == 0 for each in of_output]) for of_output in zip(*truths, strict=True)
    )
    return comparison.each_output(comparison.zeros, typed.outputs, gradients, untouched)


def _apart(arrays: Arrays, names: Collection[str]) -> Arrays:
    """Returns the arrays, with each element of the named floating-point ones up to a quarter smaller."""
    generator, found = np.random.default_rng(0), dict(arrays)
    for name in names:
        if (array := arrays[name]).dtype.kind not in "iub":
            found[name] = (array * (1 - generator.random(array.shape) / 4)).astype(array.dtype)
    return found


def statistics(selection: Selection) -> Iterator[Task]:
    """The gradients of batch norm show that the device reads saved statistics in its product's form."""
    target = selection.target
    for typed in target.cases():
        if (typed.spec.name, typed.case.name, typed.dtype) == (_OPERATOR, _CASE, "float32"):
            yield task(target, "statistics", typed, partial(_judge, target, typed, is_own=True), "PyTorch's")
            yield task(
                target, "statistics", typed, partial(_judge, target, typed, is_own=False), "of the other reading"
            )


def _judge(target: Target, typed: TypedCase, *, is_own: bool) -> Finding:
    """The device gets the form that its product reads, or another product's."""
    spec = next(each for each in typed.spec.inputs if each.name == _INPUT)
    rule = spec.values(typed.arguments, target.product)
    assert isinstance(rule, VarianceRule)
    expected = VARIANCE if rule.is_converted else RECIPROCAL
    inputs, variance = _batch(typed.arrays())
    reciprocal = _READINGS[VARIANCE](variance, rule.eps)
    saved = variance if (expected == VARIANCE) == is_own else reciprocal
    sent = _READINGS[expected](saved, rule.eps).astype(np.float32)
    gradients = target.client.execute(_OPERATOR, {**inputs, _INPUT: sent}, typed.case.attributes)
    if wrong := comparison.wrong_type(gradients, typed.outputs):
        return wrong
    tolerance = typed.tolerance(target.product)
    found = {}
    for reading, reciprocal_of in _READINGS.items():
        read = {**inputs, _INPUT: reciprocal_of(saved, rule.eps)}
        truth = reference.define(_OPERATOR, read, typed.case.attributes)
        found[reading] = comparison.each_against_truth(typed.outputs, gradients, truth, tolerance)
    return conclude(found, expected, str(target.product))


def conclude(found: dict[str, Finding], expected: str, product: str) -> Finding:
    """Returns the finding about the expected form, which names the form that explains the gradients."""
    passed = [reading for reading, finding in found.items() if finding.verdict is Verdict.PASSED]
    own = found[expected]
    if expected in passed:
        return replace(own, message=f"saveInvstd is read as {expected}")
    if passed:
        told = f"saveInvstd is read as {passed[0]}, and product {product} should read {expected}"
        return replace(own, message=f"{told}: gradients with training are wrong; report it with the CANN version")
    return replace(own, message=f"saveInvstd is read neither as {VARIANCE} nor as {RECIPROCAL}: {own.message}")


def _batch(arrays: Arrays) -> tuple[Arrays, Any]:
    """Returns the inputs with another scale and their own mean, and the variance of each channel in float64."""
    input = (arrays["input"] * _SCALE).astype(np.float32)
    wide = input.astype(np.float64)
    axes = (0, *range(2, wide.ndim))
    return {**arrays, "input": input, "save_mean": wide.mean(axes).astype(np.float32)}, wide.var(axes)
