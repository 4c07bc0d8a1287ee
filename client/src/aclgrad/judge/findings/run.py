"""One run: judges tasks one after the other, and always ends with a report."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from aclgrad.errors import AclgradError, LimitExceededError, PermissionDeniedError
from aclgrad.judge.bundles import JudgedCall
from aclgrad.judge.findings.report import GONE, End, Report
from aclgrad.judge.findings.rows import Finding, Row, Task, Verdict

_REFUSED: Final = (LimitExceededError, PermissionDeniedError)


def run(tasks: Sequence[Task], take: Callable[[Row, JudgedCall | None], None], report: Report) -> None:
    """Judges the tasks, passes each row and what was judged to `take`, and fills in the report, also if interrupted."""
    report.planned = len(tasks)
    start = time.monotonic()
    try:
        for task in tasks:
            begin = time.monotonic()
            finding = _judged(task)
            row = Row.of(task, finding, time.monotonic() - begin)
            with whole():
                report.rows.append(row)
                take(row, finding.call)
    except KeyboardInterrupt:
        report.end, report.message = End.INTERRUPTED, f"interrupted after {len(report.rows)} of {len(tasks)} rows"
    except GONE as error:
        done = f"after {len(report.rows)} of {len(tasks)} rows"
        report.end, report.message = End.SERVER_GONE, f"the server went away {done}, at {_name(task)}: {error}"
    report.seconds = time.monotonic() - start


def finding_of(error: AclgradError) -> Finding:
    """Returns the finding of a call that gave no gradient."""
    if isinstance(error, _REFUSED):
        return Finding(Verdict.SKIPPED, f"the server refuses the call: {error}")
    return Finding(Verdict.FAILED, f"{type(error).__name__}: {error}")


@contextmanager
def whole() -> Iterator[None]:
    """Lets Ctrl-C wait for the end of the block, so that all of it is done: a row is counted, written and shown."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: arrived.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if arrived:
        raise KeyboardInterrupt


def _judged(task: Task) -> Finding:
    try:
        return task.judge()
    except GONE:
        raise
    except AclgradError as error:
        return finding_of(error)


def _name(task: Task) -> str:
    return " ".join(part for part in (task.check, task.operator, task.dtype, task.case) if part)
