"""Checks that compare gradients of the same call: repeated, and without unread values."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad.errors import InputValuesRequiredError
from aclgrad.judge.check.selection import Selection, free_inputs, patterned, task
from aclgrad.judge.check.target import Target
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.operators.cases import TypedCase

_RUNS: Final = 10
"""One after the other, and then as many at once."""


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


def repeated(target: Target, alone: int, at_once: int, *call: Any, **options: Any) -> list[Any]:
    """Returns gradients of calls one after the other, and then of others in one batch, which run at the same time.

    `call` and `options` are what `Client.execute` takes.
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
        variants = {"no values": {**real, **{name: real[name].shape for name in names}}, **variants}
    gradients = {}
    for variant, inputs in variants.items():
        # The server needs the values only for some attributes.
        with suppress(InputValuesRequiredError):
            gradients[variant] = target.sender.execute(typed.spec.name, inputs, typed.case.attributes)
    figures = {"unsent": float("no values" in gradients)}
    for variant, gradient in gradients.items():
        if not comparison.same_bits(first, gradient):
            how = f"{', '.join(names)} with {variant}: {comparison.difference(first, gradient)}"
            # A server that needs the values may read them.
            return Finding(Verdict.FAILED if figures["unsent"] else Verdict.NOTED, how, figures)
    return Finding(Verdict.PASSED, f"real values, {', '.join(gradients)}", figures)
