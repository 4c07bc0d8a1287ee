"""Checks how a device reads the statistics that a forward pass saved: the batch's variance, or its reciprocal."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.judge.check.selection import Selection, task
from aclgrad.judge.check.target import Target
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.samples import Arrays
from aclgrad.operators.values import VarianceRule

_OPERATOR, _CASE, _INPUT = "batch_norm_backward", "planes", "save_invstd"
VARIANCE, RECIPROCAL = "the variance", "the reciprocal 1 / sqrt(var + eps)"
_READINGS: Final[dict[str, Callable[[Any, float], Any]]] = {
    VARIANCE: lambda saved, eps: 1 / np.sqrt(saved + eps),
    RECIPROCAL: lambda saved, eps: saved,
}
"""From what the device gets to the reciprocal that it computes with."""
_SCALE: Final = 3.0
"""The batch's standard deviation: near 1 a variance and its reciprocal are alike."""


def statistics(selection: Selection) -> Iterator[Task]:
    """The gradients of batch norm say that the device reads saved statistics as its product does."""
    target = selection.target
    for typed in target.cases():
        if (typed.spec.name, typed.case.name, typed.dtype) == (_OPERATOR, _CASE, "float32"):
            yield task(target, "statistics", typed, partial(_judge, target, typed, is_own=True), "PyTorch's")
            yield task(
                target, "statistics", typed, partial(_judge, target, typed, is_own=False), "of the other reading"
            )


def _judge(target: Target, typed: TypedCase, *, is_own: bool) -> Finding:
    """The device gets what its product reads, or what another product would read in its place."""
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
    judge = partial(comparison.against_truth, tolerance=typed.spec.tolerance(target.product, typed.arguments))
    found = {}
    for reading, reciprocal_of in _READINGS.items():
        read = {**inputs, _INPUT: reciprocal_of(saved, rule.eps)}
        truth = reference.define(_OPERATOR, read, typed.case.attributes)
        found[reading] = comparison.each_output(judge, typed.outputs, gradients, truth)
    return conclude(found, expected, str(target.product))


def conclude(found: dict[str, Finding], expected: str, product: str) -> Finding:
    """Returns the finding about the expected reading, which names the one that explains the gradients."""
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
