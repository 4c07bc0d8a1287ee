"""Checks of single gradients: accuracy, layouts of masks, and elements that receive no gradient."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from aclgrad import reference
from aclgrad.judge.bundles import BundledCall
from aclgrad.judge.check.selection import Selection, free_inputs, patterned, task
from aclgrad.judge.check.target import Target
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.masks import mask_of_argmax
from aclgrad.operators.cases import TypedCase, arrays_of
from aclgrad.operators.values import ArgmaxRule
from aclgrad.tolerances import tolerance_of


def accuracy(selection: Selection) -> Iterator[Task]:
    """Every case with every dtype is within its tolerance of the float64 definition of the same rounded inputs."""
    target = selection.target
    for name, typed in selection.named():
        yield task(target, "accuracy", typed, partial(_accuracy, target, typed), name)


def layouts(selection: Selection) -> Iterator[Task]:
    """The gradients of the device's own mask and of the argmax that it stands for have the same bits."""
    target = selection.target
    for typed in selection.of_first_dtype():
        arguments = typed.arguments
        for input in typed.spec.inputs:
            rule = input.values(arguments, target.product) if input.name in arguments.inputs else None
            if isinstance(rule, ArgmaxRule) and arguments.inputs[input.name].dtype is not rule.mask.dtype:
                yield task(target, "layouts", typed, partial(_layout, target, typed, input.name, rule))


def fills(selection: Selection) -> Iterator[Task]:
    """Elements that receive no gradient are 0, also in memory that was filled with 0xCB before."""
    target = selection.target
    for typed in selection.of_first_dtype():
        yield task(target, "fills", typed, partial(_fill, target, typed))


def _accuracy(target: Target, typed: TypedCase) -> Finding:
    inputs, outputs = typed.arrays(), typed.outputs
    tolerance = tolerance_of(typed.spec, target.product, inputs, typed.case.attributes)
    gradients = target.client.execute(typed.spec.name, inputs, typed.case.attributes)
    truth = reference.define(typed.spec.name, inputs, typed.case.attributes)
    judge = partial(comparison.against_truth, tolerance=tolerance)
    finding = comparison.wrong_type(gradients, outputs) or comparison.each_output(judge, outputs, gradients, truth)
    call = BundledCall(
        typed.spec.name,
        inputs,
        typed.case.attributes,
        gradients=dict(zip(outputs, arrays_of(gradients), strict=True)),
        expected=dict(zip(outputs, arrays_of(truth), strict=True)),
        computed_by="the definition",
        tolerance=tolerance,
    )
    return replace(finding, call=call)


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
    """Gradients of ones: an element is 0 if nothing reaches it; it is also 0 for other gradients then."""
    arrays = typed.arrays()
    target.sender.execute(typed.spec.name, patterned(arrays, free_inputs(target, typed)), typed.case.attributes)
    first = typed.spec.inputs[0].name
    inputs = {**arrays, first: np.ones_like(arrays[first])}
    gradients = target.client.execute(typed.spec.name, inputs, typed.case.attributes)
    if wrong := comparison.wrong_type(gradients, typed.outputs):
        return wrong
    truths = [arrays_of(reference.define(typed.spec.name, each, typed.case.attributes)) for each in (inputs, arrays)]
    untouched = tuple((ones == 0) & (others == 0) for ones, others in zip(*truths, strict=True))
    return comparison.each_output(comparison.zeros, typed.outputs, gradients, untouched)
