"""The doctor's subject, and its findings."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TypeVar

from aclgrad.check.rows import Finding, Verdict
from aclgrad_server.settings import Settings

Found = tuple[str, Finding]
"""The name of one thing, and what was found."""

Thing = TypeVar("Thing")


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


def in_time(things: Iterator[Thing], limit_s: float) -> Iterator[Thing]:
    """Yields what one thread makes; raises what it raises, and TimeoutError if a thing takes longer."""
    made: SimpleQueue[tuple[Thing, ...] | Exception] = SimpleQueue()

    def make() -> None:
        try:
            for thing in things:
                made.put((thing,))
            made.put(())
        except Exception as error:
            made.put(error)

    # A daemon: what hangs does not keep the process.
    threading.Thread(target=make, daemon=True).start()
    try:
        while got := made.get(timeout=limit_s):
            if isinstance(got, Exception):
                raise got
            yield got[0]
    except Empty:
        raise TimeoutError from None
