"""What the steps of the doctor have in common: findings with their names, and a time limit for what has none."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Final, TypeVar

from aclgrad.judgement.rows import Finding, Verdict

Step = tuple[str, str, Finding]
"""The check, the case, and what was found."""
Found = Iterator[Step]
_Result = TypeVar("_Result")

STEP_S: Final = 2.0
"""For one step, so that all those of a server together end within about ten seconds."""


def fine(message: str) -> Finding:
    return Finding(Verdict.PASSED, message)


def noted(message: str) -> Finding:
    return Finding(Verdict.NOTED, message)


def bad(problem: str, remedy: str) -> Finding:
    return Finding(Verdict.FAILED, f"{problem}; {remedy}")


def skipped(message: str) -> Finding:
    return Finding(Verdict.SKIPPED, message)


def begin(work: Callable[[], _Result]) -> "Future[_Result]":
    """Returns the future of work on a thread of its own, which the end of the program does not wait for."""
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    return done
