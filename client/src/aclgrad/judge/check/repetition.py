"""Checks that compare gradients with each other: the same call again, without unread values, and in batches."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad import reference
from aclgrad.errors import InputValuesRequiredError, LimitExceededError
from aclgrad.judge.check.target import Selection, Target, free_inputs, patterned, task
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.items import Items
from aclgrad.operators.spec import OperatorKind
from aclgrad.tolerances import tolerance_of

_RUNS: Final = 10
"""Runs one after the other, and then as many at once."""
_ITEMS: Final = 5
"""Number of different items: coprime to vector and tile sizes, so that each occurs at every place."""
_SIZES: Final = (1, 2, 3, 7, 64, 257)
"""Sizes of batches: around kernels' divisions among cores, tiles and vectors."""
_MOST_ELEMENTS: Final = {True: 2**16, False: 2**23}
"""Most bytes of a batch's largest tensor, by whether the check is quick."""


def determinism(selection: Selection) -> Iterator[Task]:
    """20 runs of one call, half of them at once, have the same bits; a failure only with `--deterministic true`."""
    target = selection.target
    for typed in selection.of_first_dtype():
        yield task(target, "determinism", typed, partial(_determinism, target, typed))
    if not selection.is_quick:
        for size, typed in selection.timed("6 MB"):
            yield task(target, "determinism", typed, partial(_determinism, target, typed), size)


def shape_only(selection: Selection) -> Iterator[Task]:
    """An input that is not read gives the same bits as itself, as 0xCB, as NaN and without values."""
    target = selection.target
    for typed in selection.of_first_dtype():
        unread = [input.name for input in typed.spec.inputs if input.unread_on is not None]
        names = [name for name in unread if name in typed.case.shapes]
        if names:
            yield task(target, "shape_only", typed, partial(_shape_only, target, typed, names))


def views(selection: Selection) -> Iterator[Task]:
    """Transposed inputs, sent as views and not as copies, give the bits of row-major ones; sums may be noted."""
    target = selection.target
    for typed in selection.of_first_dtype():
        names = [name for name, type in typed.arguments.inputs.items() if sum(size > 1 for size in type.shape) > 1]
        if names:
            yield task(target, "views", typed, partial(_views, target, typed, names))


def repeated(target: Target, alone: int, at_once: int, *call: Any, **options: Any) -> list[Any]:
    """Returns gradients of sequential calls, and then of others in one batch, which run at the same time.

    `call` and `options` are the arguments of `Client.execute`.
    """
    gradients = [target.client.execute(*call, **options) for _ in range(alone)]
    batch = target.client.batch()
    for _ in range(at_once):
        batch.execute(*call, **options)
    return [*gradients, *batch.run()]


def steadiness(target: Target, gradients: Sequence[Any]) -> Finding:
    """Passes if the gradients of one call have the same bits; a failure only with `--deterministic true`."""
    first, *others = gradients
    different = [each for each in others if not comparison.same_bits(first, each)]
    figures = {"runs": float(len(others) + 1), "different": float(len(different))}
    if not different:
        return Finding(Verdict.PASSED, figures=figures)
    message = f"{len(different)} of {len(others)} repeated runs differ: {comparison.difference(first, different[0])}"
    if target.status.deterministic:
        return Finding(Verdict.FAILED, message, figures)
    return Finding(Verdict.NOTED, f"{message}; the server runs without --deterministic true", figures)


def _determinism(target: Target, typed: TypedCase) -> Finding:
    call = (typed.spec.name, typed.arrays(), typed.case.attributes)
    return steadiness(target, repeated(target, _RUNS, _RUNS, *call))


def _shape_only(target: Target, typed: TypedCase, names: list[str]) -> Finding:
    real = typed.arrays()
    nan = {name: np.full_like(real[name], np.nan) for name in names if real[name].dtype.kind not in "iu"}
    free = [name for name in names if name in free_inputs(target, typed)]
    variants: dict[str, dict[str, Any]] = {"0xCB bytes": patterned(real, free), "NaN": {**real, **nan}}
    first = target.sender.execute(typed.spec.name, real, typed.case.attributes)
    if all(target.takes_shape(typed.spec.name, name) for name in names):
        types = {name: typed.arguments.inputs[name] for name in names}
        variants = {"no values": {**real, **types}, **variants}
    gradients = {}
    for variant, inputs in variants.items():
        # With some attributes, the server needs the values.
        with suppress(InputValuesRequiredError):
            gradients[variant] = target.sender.execute(typed.spec.name, inputs, typed.case.attributes)
    figures = {"unsent": float("no values" in gradients)}
    for variant, gradient in gradients.items():
        if not comparison.same_bits(first, gradient):
            how = f"{', '.join(names)} with {variant}: {comparison.difference(first, gradient)}"
            # A server that needs the values may read them.
            return Finding(Verdict.FAILED if figures["unsent"] else Verdict.NOTED, how, figures)
    return Finding(Verdict.PASSED, f"real values, {', '.join(gradients)}", figures)


def _views(target: Target, typed: TypedCase, names: list[str]) -> Finding:
    arrays = typed.arrays()
    transposed = {name: np.asfortranarray(arrays[name]) for name in names}
    gradients = [
        target.sender.execute(typed.spec.name, inputs, typed.case.attributes)
        for inputs in (arrays, {**arrays, **transposed})
    ]
    # Inputs with a rule are made row-major before a device has them.
    are_read = target.described[typed.spec.name].reads_views and any(
        typed.spec.input(name).rule(typed.arguments, target.product) is None for name in names
    )
    figures = {"read_as_they_are": float(are_read)}
    if comparison.same_bits(*gradients):
        return Finding(Verdict.PASSED, ", ".join(names), figures)
    how = f"{', '.join(names)} transposed: {comparison.difference(*gradients)}"
    if typed.spec.kind is OperatorKind.VALUE or typed.spec.matrix_operations(typed.arguments):
        # A device may sum in memory order.
        truth = reference.define(typed.spec.name, arrays, typed.case.attributes)
        tolerance = tolerance_of(typed.spec, target.product, arrays, typed.case.attributes)
        finding = comparison.against_definition(gradients[1], truth, typed.outputs, tolerance)
        if finding.verdict is Verdict.PASSED:
            return replace(finding, verdict=Verdict.NOTED, message=how, figures={**finding.figures, **figures})
    return Finding(Verdict.FAILED, how, figures)


def invariance(selection: Selection) -> Iterator[Task]:
    """A row, plane or image has the same bits alone and in batches of 1 to 257, at every place and in a message."""
    target = selection.target
    calls = [(typed.case.name, typed) for typed in selection.of_first_dtype()]
    for name, typed in calls if selection.is_quick else [*calls, *selection.timed("6 MB")]:
        items = Items.of(typed)
        sizes = _sizes(target, items, _MOST_ELEMENTS[selection.is_quick]) if items else []
        if items and sizes[1:]:
            yield task(target, "invariance", typed, partial(_invariance, target, items, sizes), name)


def _sizes(target: Target, items: Items, most: int) -> list[int]:
    """Returns the sizes of batches that are legal and not too large."""
    return [size for size in _SIZES if _is_legal(target, items, size, most)]


def _is_legal(target: Target, items: Items, size: int, most: int) -> bool:
    batch = items.batch(size)
    tensors = (*batch.arguments.inputs.values(), *batch.outputs.values())
    is_small = max(each.element_count for each in tensors) <= most
    return is_small and not any(batch.spec.check(batch.arguments, target.product))


def _invariance(target: Target, items: Items, sizes: list[int]) -> Finding:
    calls = list(_calls(target, items, sizes))
    for _, _, typed, gradients in calls:
        if wrong_type := comparison.wrong_type(gradients, typed.outputs):
            return wrong_type
    alone = [items.split(gradients, 1)[0] for *_, gradients in calls[:_ITEMS]]
    compared, different = 0, 0
    wrong: dict[str, str] = {}
    for where, chosen, _, gradients in calls[_ITEMS:]:
        for index, part in enumerate(items.split(gradients, len(chosen))):
            one = alone[chosen[index]]
            compared += 1
            if not comparison.same_bits(one, part):
                different += 1
                how = comparison.difference(one, part)
                wrong.setdefault(where, f"{items.name} {index} {where} is not what it is alone: {how}")
    figures = {"compared": float(compared), "different": float(different)}
    if not wrong:
        _, largest, *_ = calls[-1]
        done = f"{items.name}: alone, in a message, and in batches of up to {len(largest)}"
        return Finding(Verdict.PASSED, done, figures)
    first, *others = wrong
    return Finding(Verdict.FAILED, "; also ".join([wrong[first], *others]), figures)


def _calls(target: Target, items: Items, sizes: list[int]) -> Iterator[tuple[str, list[int], TypedCase, Any]]:
    """Yields the place of items, which ones, as which call, and the gradients: first each of them alone."""
    name, arrays, one = items.typed.spec.name, items.draw(_ITEMS), items.typed
    for number, inputs in enumerate(arrays):
        yield "alone", [number], one, target.client.execute(name, inputs, one.attributes)
    message = target.client.batch()
    for inputs in arrays:
        message.execute(name, inputs, one.attributes)
    for number, gradients in enumerate(message.run()):
        yield f"as call {number} of a message", [number], one, gradients
    for size in sizes:
        # Each batch begins with another item.
        chosen, batch = [(size + index) % _ITEMS for index in range(size)], items.batch(size)
        inputs = items.join([arrays[number] for number in chosen])
        try:
            gradients = target.client.execute(name, inputs, batch.attributes)
        except LimitExceededError:
            # Smaller batches are useful, too.
            if size <= sizes[1]:
                raise
            break
        yield f"in a batch of {size}", chosen, batch, gradients
