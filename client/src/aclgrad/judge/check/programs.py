"""The check of programs: random steps that use each other's outputs, judged however the program is sent."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad.errors import AclgradError, MethodNotServedError
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.check.attentions import OPERATORS as ATTENTION
from aclgrad.judge.check.attentions import attention_programs
from aclgrad.judge.check.composites import OPERATORS as COMPOSED
from aclgrad.judge.check.composites import composite_programs
from aclgrad.judge.check.convolutions import OPERATOR as CONVOLUTION
from aclgrad.judge.check.convolutions import convolution_programs
from aclgrad.judge.check.target import Selection, Target
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Task, Verdict
from aclgrad.judge.findings.steps import judge_steps
from aclgrad.judge.programs.drawing import draw_program
from aclgrad.judge.programs.judging import DEFINITION
from aclgrad.judge.programs.program import Array, Program, Result, Returned, alone
from aclgrad.judge.programs.sending import send
from aclgrad.operators.cases import returned_arrays
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import Integer
from aclgrad.operators.spec import OperatorKind, Tolerance

_PROGRAMS: Final = {True: 30, False: 300}
"""Counts by whether the check is quick."""
_DTYPES: Final = ("float32", "float16", "float32", "bfloat16")
"""Dtypes in turn; all steps of a program have the same."""
_MOST_STEPS: Final = 60
_FAR: Final = 2.0**-4
"""Share of the largest value: more than the effect of the order of sums on a chain in any dtype."""
_LEAST: Final = 2.0**-20
"""The least size of a largest value."""
_WHOLE: Final = "the same program with all outputs returned"
_ALONE: Final = "its steps alone"


def program(selection: Selection) -> Iterator[Task]:
    """Steps of random programs, products, convolutions and attention are right, with the same bits if run in part."""
    target = selection.target
    served = {dtype: names for dtype in _DTYPES if (names := _served(target, dtype))}
    dtypes = [dtype for dtype in _DTYPES if dtype in served]
    if dtypes and not _runs_programs(target, served[dtypes[0]], dtypes[0]):
        problem = f"aclgrad {target.status.version} of the server runs no programs; upgrade it"
        yield Task(target.origin, "program", "", "", (), "", lambda: Finding(Verdict.FAILED, problem))
        return
    for seed in range(_PROGRAMS[selection.is_quick]) if dtypes else ():
        dtype = dtypes[seed % len(dtypes)]
        judge = partial(_random, target, served[dtype], dtype, seed)
        yield Task(target.origin, "program", "", dtype, (), f"seed {seed}", judge)
    for each, operators in served.items():
        for name, make in _of_networks(target, operators, each, is_quick=selection.is_quick):
            yield Task(target.origin, "program", "", each, (), name, partial(_of_network, target, make))


def _served(target: Target, dtype: str) -> list[str]:
    """Returns the server's operators with a dtype."""
    names = [name for name in target.expected_operators if name in target.described]
    return [
        name
        for name in names
        if dtype in OPERATORS[name].dtypes_on(target.product) and dtype not in target.missing_dtypes(name)
    ]


def _runs_programs(target: Target, operators: Sequence[str], dtype: str) -> bool:
    drawn = _draw(target, operators, dtype, np.random.default_rng(0))
    try:
        send(target.client, drawn, drawn.outputs)
    except MethodNotServedError:
        return False
    except AclgradError:
        pass  # the rows report it
    return True


def _draw(target: Target, operators: Sequence[str], dtype: str, generator: np.random.Generator) -> Program:
    while True:
        drawn = draw_program(_integers(generator), target.product, _MOST_STEPS, operators, dtype, faults=False)
        if len(drawn.steps) > 1:
            return drawn


def _integers(generator: np.random.Generator) -> Integer:
    return lambda first, last: int(generator.integers(first, last, endpoint=True))


def _random(target: Target, operators: Sequence[str], dtype: str, seed: int) -> Finding:
    generator = np.random.default_rng(seed)
    drawn = _draw(target, operators, dtype, generator)
    return _judged(target, drawn, generator, is_alone=bool(seed % 2))


def _of_networks(
    target: Target, operators: Collection[str], dtype: str, *, is_quick: bool
) -> Iterator[tuple[str, Callable[[], Program]]]:
    if COMPOSED.issubset(operators):
        yield from composite_programs(dtype, is_quick=is_quick)
    if CONVOLUTION in operators:
        yield from convolution_programs(dtype, target.product, is_quick=is_quick)
    if ATTENTION.issubset(operators):
        yield from attention_programs(dtype, is_quick=is_quick)


def _of_network(target: Target, make: Callable[[], Program]) -> Finding:
    return _judged(target, make(), np.random.default_rng(0), is_alone=False)


def _judged(target: Target, drawn: Program, generator: np.random.Generator, *, is_alone: bool) -> Finding:
    """Judges each step, and whether it has the same bits without some outputs, and if `is_alone`, by itself."""
    whole = send(target.client, drawn, drawn.outputs)
    results = _by_step(drawn, whole)
    judged = judge_steps(drawn, results, target.product)
    finding = replace(judged.finding, figures={**judged.finding.figures, "steps": len(drawn.steps)})
    if judged.failed:
        every = tuple(drawn.outputs)
        call = (
            JudgedProgram(drawn, every, whole, judged.truths, DEFINITION, judged.tolerance) if judged.truths else None
        )
        return replace(finding, judged=call)
    chosen = [each for each in drawn.outputs if generator.integers(4) == 0] or drawn.outputs[-1:]
    part = send(target.client, drawn, chosen)
    way = f"with {len(chosen)} of {len(drawn.outputs)} outputs returned"
    if found := _differences(target, drawn, whole, part, way):
        return replace(finding, judged=_expecting(drawn, chosen, part, whole, _WHOLE), **found)
    if is_alone:
        single = _run_alone(target, drawn, results)
        if found := _differences(target, drawn, whole, single, _ALONE, _rearranged(drawn)):
            return replace(finding, judged=_expecting(drawn, drawn.outputs, whole, single, _ALONE), **found)
    return finding


def _by_step(drawn: Program, whole: Mapping[str, Array]) -> list[Result]:
    return [
        {name: whole[drawn.label((number, name))] for name in step.types} for number, step in enumerate(drawn.steps)
    ]


def _run_alone(target: Target, drawn: Program, results: Sequence[Result]) -> dict[str, Array]:
    batch = target.client.batch()
    steps = alone(drawn, results)
    for step in steps.steps:
        batch.execute(step.operator, steps.values_of(step, ()), step.attributes, outputs=step.outputs or None)
    made = [returned_arrays(found) for found in batch.run()]
    return {
        drawn.label((number, name)): array
        for number, (step, arrays) in enumerate(zip(drawn.steps, made, strict=True))
        for name, array in zip(step.types, arrays, strict=True)
    }


def _rearranged(drawn: Program) -> frozenset[int]:
    """Returns the steps whose sums follow the memory order, with inputs that a client may send in another order."""
    return frozenset(
        number
        for number, step in enumerate(drawn.steps)
        if OPERATORS[step.operator].kind is OperatorKind.VALUE and any(each.view for each in step.inputs)
    )


def _differences(
    target: Target,
    drawn: Program,
    first: Mapping[str, Array],
    second: Mapping[str, Array],
    way: str,
    rearranged: Collection[int] = (),
) -> dict[str, Any]:
    """Returns verdict and message if the second way gave other bits, or is far off in rearranged steps.

    Without `--deterministic true`, other bits are a failure only if the order of sums does not explain them.
    """
    found, is_far = [], False
    for number, name in drawn.outputs:
        label = drawn.label((number, name))
        if label in second and not comparison.same_bits(first[label], second[label]):
            if not (far := _are_far(first[label], second[label])) and number in rearranged:
                continue
            how = comparison.difference(first[label], second[label])
            is_far |= far
            found.append(f"{way}: step {number} ({drawn.steps[number].operator}, {name}): {how}")
    if not found:
        return {}
    message = found[0] + (f"; {len(found) - 1} others differ too" if found[1:] else "")
    if target.status.deterministic or is_far:
        return {"verdict": Verdict.FAILED, "message": message}
    return {"verdict": Verdict.NOTED, "message": f"{message}; the server runs without --deterministic true"}


def _are_far(first: Array, second: Array) -> bool:
    """Whether results differ by more than the order of sums in a chain explains."""
    one, other = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gap, largest = np.abs(one - other), np.abs(one).max(initial=_LEAST)
    is_same = (one == other) | (np.isnan(one) & np.isnan(other))
    return not bool(np.all(is_same | (gap <= _FAR * largest)))


def _expecting(
    drawn: Program, returned: Sequence[Returned], found: Mapping[str, Array], other: Mapping[str, Array], way: str
) -> JudgedProgram | None:
    """Returns the program with the other way's results instead of definitions, where bits differ."""
    labels = [drawn.label(each) for each in returned]
    expected = {
        label: other[label].astype(np.float64)
        for label in labels
        if np.isfinite(other[label].astype(np.float64)).all() and not comparison.same_bits(found[label], other[label])
    }
    gradients = {label: found[label] for label in labels}
    return JudgedProgram(drawn, tuple(returned), gradients, expected, way, Tolerance(0.0, 0.0)) if expected else None
