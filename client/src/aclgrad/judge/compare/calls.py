"""The calls that two servers are compared on: those of the case table, in the form that all sources of calls have."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, Self

import numpy as np

from aclgrad import reference
from aclgrad.judge.check.repetition import repeated
from aclgrad.judge.check.selection import Selection
from aclgrad.judge.check.target import Target
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding
from aclgrad.operators.cases import TypedCase, arrays_of, served_dtypes
from aclgrad.operators.samples import Arrays
from aclgrad.tolerances import tolerance_of

Array = np.ndarray[Any, Any]

AT_ONCE: Final = 4
"""How often each call is repeated, in one message; a large one less often."""


class NotComparedError(Exception):
    """A call that one of the servers, or PyTorch, does not take; the text says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one server computed of a call: its gradients by name, and what every run of the call gave.

    `source` is what the question itself needs to judge it.
    """

    gradients: Mapping[str, Array]
    runs: Sequence[Any]
    source: Any = None


class Question(Protocol):
    """A call with its arrays, and what its gradients should be."""

    def ask(self, target: Target) -> Answer:
        """Has the server compute the call, and again several times at once. May raise NotComparedError."""

    def judge(self, target: Target, answer: Answer) -> Finding:
        """Compares the gradients with what they should be, within the tolerance of the server's product."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call for both servers. `question` makes its arrays, once it is asked; it may raise NotComparedError.

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
        return Answer(dict(zip(self.typed.outputs, arrays_of(runs[0]), strict=True)), runs)

    def judge(self, target: Target, answer: Answer) -> Finding:
        gradients = tuple(answer.gradients.values())
        if wrong := comparison.wrong_type(gradients, self.typed.outputs):
            return wrong
        spec, attributes = self.typed.spec, self.typed.case.attributes
        tolerance = tolerance_of(spec, target.product, self.inputs, attributes)
        judge = partial(comparison.against_truth, tolerance=tolerance)
        return comparison.each_output(judge, self.typed.outputs, gradients, self.truth)


def table_calls(a: Target, b: Target, only: Collection[str], *, is_quick: bool) -> Iterator[Call]:
    """Yields the sample calls that both servers take, of these operators or of all.

    What only one of them takes is one call for each operator, dtype and reason.
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
    """Returns why the server does not take the call; empty if it does."""
    name, product = typed.spec.name, target.product
    if not target.serves(typed) and (why := target.why_off(name, typed.dtype)):
        return f"has turned the operator off: {why}"
    if product not in typed.spec.products:
        return f"is on product {product}, which does not have the operator"
    if name not in target.described:
        return "does not list the operator"
    if not target.serves(typed) or typed.dtype not in typed.spec.inputs[0].dtypes[product]:
        return f"is on product {product} and does not take {typed.dtype}"
    if typed.dtype not in served_dtypes(typed.spec, typed.case, product):
        return f"is on product {product}, which does not compute such calls"
    return ""
