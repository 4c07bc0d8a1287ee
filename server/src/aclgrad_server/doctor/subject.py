"""The doctor's subject, and its findings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from aclgrad.check.rows import Finding, Verdict
from aclgrad_server.settings import Settings

Found = tuple[str, Finding]
"""The name of one thing, and what was found."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A server that would start now. `given` has the settings from flags."""

    settings: Settings
    given: Mapping[str, object]
    environment: Mapping[str, str]
    is_ascend: bool
    """Whether its back end is CANN: only then do the rules of cards apply."""
    cards: Sequence[int] = (0,)
    """The device of each of its workers, which several may share."""


Examination = Callable[[Subject], Iterator[Found]]


def fine(message: str, **figures: float) -> Finding:
    """Returns a finding that needs no action."""
    return Finding(Verdict.PASSED, message, figures)


def bad(problem: str, remedy: str, **figures: float) -> Finding:
    """Returns a finding that keeps the server from serving, or from serving well."""
    return Finding(Verdict.FAILED, f"{problem}; {remedy}", figures)


def noted(message: str, **figures: float) -> Finding:
    """Returns a finding that may or may not be intended."""
    return Finding(Verdict.NOTED, message, figures)


def judged(is_fine: bool, found: str, remedy: str, **figures: float) -> Finding:
    """Returns the finding, with the remedy unless all is well."""
    return fine(found, **figures) if is_fine else bad(found, remedy, **figures)
