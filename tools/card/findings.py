"""The findings of an examination."""

from aclgrad.judge.findings.rows import Finding, Verdict

Found = tuple[str, Finding]
"""The name of one thing, and what was found."""


def fine(message: str, **figures: float) -> Finding:
    return Finding(Verdict.PASSED, message, figures)


def noted(message: str, **figures: float) -> Finding:
    """Returns a finding that may or may not be intended."""
    return Finding(Verdict.NOTED, message, figures)


def judged(is_fine: bool, found: str, remedy: str, **figures: float) -> Finding:
    """Returns the finding, with the remedy unless all is well."""
    return (
        Finding(Verdict.PASSED, found, figures) if is_fine else Finding(Verdict.FAILED, f"{found}; {remedy}", figures)
    )
