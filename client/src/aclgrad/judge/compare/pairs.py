"""Compares two servers call by call: each with the truth and with itself, and with the other."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Protocol, Self

import numpy as np

from aclgrad import reference
from aclgrad.errors import AclgradError
from aclgrad.judge.check.repetition import repeated, steadiness
from aclgrad.judge.check.target import Selection, Target
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import GONE, Finding, Task, Verdict, error_of, worst_of
from aclgrad.judge.findings.run import finding_of
from aclgrad.operators.cases import TypedCase, returned_arrays, served_dtypes
from aclgrad.operators.samples import Arrays
from aclgrad.tolerances import tolerance_of

Array = np.ndarray[Any, Any]

AT_ONCE: Final = 4
"""Repetitions of each call in one message; fewer of a large one."""


class NotComparedError(Exception):
    """One of the servers, or PyTorch, does not take a call; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One server's results of a call: its gradients by name, and those of every run.

    `source` is for the question, which needs it to judge the call.
    """

    gradients: Mapping[str, Array]
    runs: Sequence[Any]
    source: Any = None


class Question(Protocol):
    """A call with its arrays, and its right gradients."""

    def ask(self, target: Target) -> Answer:
        """Makes the call on the server, then several times at once. May raise NotComparedError."""

    def judge(self, target: Target, answer: Answer) -> Finding:
        """Compares the gradients with the right ones, within the tolerance of the server's product."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call for both servers. `question` makes its arrays on demand; it may raise NotComparedError.

    `operator` may also be a function of PyTorch, and `shape` is that of the first gradient. If a server does not take
    the call, `unserved` says why.
    """

    operator: str
    dtype: str
    shape: tuple[int, ...]
    case: str
    question: Callable[[], Question]
    unserved: str = ""


@dataclass(frozen=True, slots=True)
class TableQuestion:
    """A call of the case table, judged by its definition."""

    typed: TypedCase
    inputs: Arrays
    truth: Any

    @classmethod
    def of(cls, typed: TypedCase) -> Self:
        inputs = typed.arrays()
        return cls(typed, inputs, reference.define(typed.spec.name, inputs, typed.case.attributes))

    def ask(self, target: Target) -> Answer:
        runs = repeated(target, 1, AT_ONCE, self.typed.spec.name, self.inputs, self.typed.case.attributes)
        return Answer(dict(zip(self.typed.outputs, returned_arrays(runs[0]), strict=True)), runs)

    def judge(self, target: Target, answer: Answer) -> Finding:
        gradients = tuple(answer.gradients.values())
        spec, attributes = self.typed.spec, self.typed.case.attributes
        tolerance = tolerance_of(spec, target.product, self.inputs, attributes)
        return comparison.against_definition(gradients, self.truth, self.typed.outputs, tolerance)


def table_calls(a: Target, b: Target, only: Collection[str], *, is_quick: bool) -> Iterator[Call]:
    """Yields the sample calls that both servers take, of these operators or of all.

    Calls that only one of them takes are one for each operator, dtype and reason.
    """
    cases = {str(typed): (name, typed) for each in (a, b) for name, typed in Selection(each, is_quick).named()}
    unserved: dict[tuple[str, str, str], list[str]] = {}
    for name, typed in cases.values():
        operator, dtype = typed.spec.name, typed.dtype
        if only and operator not in only:
            continue
        question = partial(TableQuestion.of, typed)
        if why := next((f"{side} {why}" for side, each in (("A", a), ("B", b)) if (why := _refusal(each, typed))), ""):
            unserved.setdefault((operator, dtype, why), []).append(name)
        else:
            yield Call(operator, dtype, next(iter(typed.outputs.values())).shape, name, question)
    for (operator, dtype, why), names in unserved.items():
        yield Call(operator, dtype, (), names[0] if len(names) == 1 else f"{len(names)} cases", question, why)


def _refusal(target: Target, typed: TypedCase) -> str:
    """Returns why the server refuses the call; empty if it does not."""
    name, product = typed.spec.name, target.product
    if not target.serves(typed) and (why := target.why_off(name, typed.dtype)):
        return f"has turned the operator off: {why}"
    if product not in typed.spec.products:
        return f"is on product {product}, which does not have the operator"
    if name not in target.described:
        return "does not list the operator"
    if not target.serves(typed) or typed.dtype not in typed.spec.dtypes_on(product):
        return f"is on product {product} and does not take {typed.dtype}"
    if typed.dtype not in served_dtypes(typed.spec, typed.case, product):
        return f"is on product {product}, which does not compute such calls"
    return ""


Figures = dict[str, float | None]


def pair_tasks(a: Target, b: Target, calls: Iterable[Call], *, is_again: bool) -> list[Task]:
    """Returns a task for each call, and on request one more after all others."""
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
    """Returns how the gradients of two servers differ; nothing if their types already do."""
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
    shares = [error_of(each.figures.get("error_of_limit")) for each in judged]
    return {
        "error_of_limit": max(shares),
        "max_error": max(error_of(each.figures.get("max_error")) for each in judged),
        **dict(zip(("a_of_limit", "b_of_limit"), shares, strict=True)),
        **{f"{side}_wrong": float(each.verdict is Verdict.FAILED) for side, each in zip("ab", judged, strict=True)},
        **{f"{side}_varied": each.figures["different"] for side, each in zip("ab", steady, strict=True)},
        "runs": steady[0].figures["runs"],
    }


def _together(findings: Sequence[tuple[str, Finding]], figures: Figures) -> Finding:
    """Returns the worst verdict, and the messages of all that have it."""
    verdict = worst_of(finding.verdict for _, finding in findings)
    told = [(side, finding) for side, finding in findings if finding.verdict is verdict is not Verdict.PASSED]
    message = "; ".join(f"{side}: {finding.message}" for side, finding in told)
    return Finding(verdict, message, figures, next((finding.worst for _, finding in told if finding.worst), ()))
