"""Judges the steps of a program by their definitions, from their inputs on the server."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aclgrad.errors import AclgradError
from aclgrad.judge.findings.comparison import against_truth, wrong_type
from aclgrad.judge.findings.rows import Finding, Verdict, error_of
from aclgrad.judge.programs.judging import expected_of
from aclgrad.judge.programs.program import Array, Program, Result
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product


@dataclass(slots=True, eq=False)
class JudgedSteps:
    """The findings about judged outputs by label, and their expected values."""

    findings: dict[str, Finding] = field(default_factory=dict)
    truths: dict[str, Array] = field(default_factory=dict)
    tolerances: dict[str, Tolerance] = field(default_factory=dict)

    @property
    def failed(self) -> list[Finding]:
        return [each for each in self.findings.values() if each.verdict is Verdict.FAILED]

    @property
    def tolerance(self) -> Tolerance:
        return Tolerance(0.0, 0.0, outputs=self.tolerances)

    @property
    def finding(self) -> Finding:
        """The first failed finding, which may cause others, or the one nearest to its limit."""
        if not self.findings:
            return Finding(Verdict.SKIPPED, "no definition judges a step: the values are too large")
        first, *others = self.failed or [max(self.findings.values(), key=_share_of)]
        if not self.failed:
            return replace(first, message=f"{len(self.findings)} outputs by their definitions")
        return replace(first, message=f"{first.message}; {len(others)} others failed too") if others else first


def _share_of(finding: Finding) -> float:
    return error_of(finding.figures.get("error_of_limit", 0.0))


def judge_steps(program: Program, results: Sequence[Result], product: Product) -> JudgedSteps:
    """Judges the results of all steps, with all their outputs; skips those with errors."""
    judged = JudgedSteps()
    steps = [
        (number, step, result)
        for number, (step, result) in enumerate(zip(program.steps, results, strict=True))
        if not isinstance(result, AclgradError)
    ]
    for number, step, result in steps:
        for name, type in step.types.items():
            if wrong := wrong_type(result[name], {name: type}):
                judged.findings[program.label((number, name))] = _named(wrong, number, step.operator)
    if judged.findings:
        return judged  # their consequences have no meaning
    for number, step, result in steps:
        expected = expected_of(step, program.values_of(step, results), product)
        if expected is None:
            continue
        for name, truth in expected.truths.items():
            label, tolerance = program.label((number, name)), expected.tolerance.of(name)
            finding = against_truth(result[name], truth, tolerance)
            judged.findings[label] = _named(finding, number, f"{step.operator}, {name}")
            judged.truths[label], judged.tolerances[label] = truth, tolerance
    return judged


def _named(finding: Finding, number: int, about: str) -> Finding:
    return replace(finding, message=f"step {number} ({about}): {finding.message}") if finding.message else finding
