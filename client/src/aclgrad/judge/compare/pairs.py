"""Compares two servers call by call: each with what is right and with itself, and one with the other."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np

from aclgrad.errors import AclgradError
from aclgrad.judge.check.repetition import steadiness
from aclgrad.judge.check.target import Target
from aclgrad.judge.compare.calls import Call, NotComparedError
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import GONE, Finding, Task, Verdict
from aclgrad.judge.findings.run import finding_of

Array = np.ndarray[Any, Any]
Figures = dict[str, float | None]

_WORST: Final = (Verdict.FAILED, Verdict.NOTED, Verdict.PASSED)


def pair_tasks(a: Target, b: Target, calls: Iterable[Call], *, is_again: bool) -> list[Task]:
    """Returns a task for each call, and if asked to another one after all others."""
    listed = list(calls)
    rounds = [(call, "") for call in listed]
    if is_again:
        rounds += [(call, ", after all others") for call in listed if not call.unserved]
    return [
        Task(b.origin, "compare", call.operator, call.dtype, call.shape, call.case + later, partial(_judge, a, b, call))
        for call, later in rounds
    ]


def _judge(a: Target, b: Target, call: Call) -> Finding:
    """Fails if a server is outside its tolerance, or varies although it is deterministic; notes other differences."""
    if call.unserved:
        return Finding(Verdict.SKIPPED, call.unserved)
    try:
        question = call.question()
    except NotComparedError as reason:
        return Finding(Verdict.SKIPPED, str(reason))
    gradients, judged, steady = [], [], []
    for side, target in (("A", a), ("B", b)):
        try:
            answer = question.ask(target)
        except GONE:
            raise
        except NotComparedError as reason:
            return Finding(Verdict.SKIPPED, f"{side}: {reason}")
        except AclgradError as error:
            finding = finding_of(error)
            return replace(finding, message=f"{side}: {finding.message}")
        gradients.append(answer.gradients)
        judged.append(question.judge(target, answer))
        steady.append(steadiness(target, answer.runs))
    apart = _apart(*gradients)
    if a.origin == b.origin and a.status.deterministic and apart.verdict is Verdict.NOTED:
        apart = replace(apart, verdict=Verdict.FAILED)
    findings = zip(("A", "B", "A", "B", "A and B"), (*judged, *steady, apart), strict=True)
    return _together(list(findings), {**_figures(judged, steady), **apart.figures})


def _apart(first: Mapping[str, Array], second: Mapping[str, Array]) -> Finding:
    """Returns how the gradients of two servers differ; nothing where their types already do."""
    pairs = {name: (first[name], second[name]) for name in first}
    if any(one.shape != other.shape or one.dtype != other.dtype for one, other in pairs.values()):
        return Finding(Verdict.NOTED, "their shapes or dtypes differ")
    spreads = {name: comparison.spread(*pair) for name, pair in pairs.items()}
    figures = {key: float(np.max([each[key] for each in spreads.values()])) for key in next(iter(spreads.values()))}
    if not figures["different"]:
        return Finding(Verdict.PASSED, figures=figures)
    name = max(spreads, key=lambda each: (spreads[each]["max_ulps"], spreads[each]["different"]))
    worst = comparison.furthest(*pairs[name])
    values = f"B has {worst[0].computed:.9g} at {worst[0].index} where A has {worst[0].expected:.9g}"
    message = f"{comparison.difference(*pairs[name])}, {ulps(spreads[name]['max_ulps'])}; {values}"
    return Finding(Verdict.NOTED, f"{name}: {message}" if len(pairs) > 1 else message, figures, worst)


def ulps(count: float) -> str:
    """Returns the text of a number of units in the last place."""
    return f"{count:.4g} ULP{'' if count == 1 else 's'}"


def _figures(judged: Sequence[Finding], steady: Sequence[Finding]) -> Figures:
    shares = [_error_of(each.figures.get("error_of_limit")) for each in judged]
    return {
        "error_of_limit": max(shares),
        "max_error": max(_error_of(each.figures.get("max_error")) for each in judged),
        **dict(zip(("a_of_limit", "b_of_limit"), shares, strict=True)),
        **{f"{side}_wrong": float(each.verdict is Verdict.FAILED) for side, each in zip("ab", judged, strict=True)},
        **{f"{side}_varied": each.figures["different"] for side, each in zip("ab", steady, strict=True)},
        "runs": steady[0].figures["runs"],
    }


def _error_of(error: float | None) -> float:
    """Returns the error; what is not a number, or has another type than its definition, is beyond all limits."""
    return math.inf if error is None or math.isnan(error) else error


def _together(findings: Sequence[tuple[str, Finding]], figures: Figures) -> Finding:
    """Returns the worst verdict, and what all those say that have it."""
    verdict = next(worst for worst in _WORST if any(finding.verdict is worst for _, finding in findings))
    told = [(side, finding) for side, finding in findings if finding.verdict is verdict is not Verdict.PASSED]
    message = "; ".join(f"{side}: {finding.message}" for side, finding in told)
    return Finding(verdict, message, figures, next((finding.worst for _, finding in told if finding.worst), ()))
