"""One run of a judging command: from tasks to rows, their file, a bundle of the worst call and an exit code."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol, TypeVar

from aclgrad.descriptions.status import ServerStatus
from aclgrad.errors import AclgradError, LimitExceededError, PermissionDeniedError
from aclgrad.exits import exit_codes, fail, print_json, wants_json
from aclgrad.judge import bundles
from aclgrad.judge.bundles import Bundle, JudgedProgram
from aclgrad.judge.findings.display import Display, line_of
from aclgrad.judge.findings.rows import GONE, End, Finding, Origin, Report, Row, Task, Verdict, error_of, write_line
from aclgrad.new_files import check_unwritten, checked_folder

_REFUSED: Final = (LimitExceededError, PermissionDeniedError)


def run(tasks: Sequence[Task], take: Callable[[Row, JudgedProgram | None], None], report: Report) -> None:
    """Judges the tasks, passes each row and its program to `take`, and fills in the report, even if interrupted."""
    report.planned = len(tasks)
    start = time.monotonic()
    try:
        for task in tasks:
            begin = time.monotonic()
            finding = _judged(task)
            row = Row.of(task, finding, time.monotonic() - begin)
            with whole():
                report.rows.append(row)
                take(row, finding.judged)
    except KeyboardInterrupt:
        report.end, report.message = End.INTERRUPTED, f"interrupted after {len(report.rows)} of {len(tasks)} rows"
    except GONE as error:
        done = f"after {len(report.rows)} of {len(tasks)} rows"
        report.end, report.message = End.SERVER_GONE, f"the server went away {done}, at {_name(task)}: {error}"
    report.seconds = time.monotonic() - start


def finding_of(error: AclgradError) -> Finding:
    """Returns the finding of a call without a gradient."""
    if isinstance(error, _REFUSED):
        return Finding(Verdict.SKIPPED, f"the server refuses the call: {error}")
    return Finding(Verdict.FAILED, f"{type(error).__name__}: {error}")


@contextmanager
def whole() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block, so that a row is counted, written and shown."""
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


class WorstCall:
    """Keeps one call, of the failed row whose error is the largest share of its limit."""

    def __init__(self) -> None:
        self._row: Row | None = None
        self._judged: JudgedProgram | None = None

    def take(self, row: Row, judged: JudgedProgram | None) -> None:
        """Keeps the call if its row is worse than all earlier ones."""
        if judged is None or row.verdict is not Verdict.FAILED:
            return
        if self._row is None or _share_of(row) > _share_of(self._row):
            self._row, self._judged = row, judged

    def write(self, path: Path, servers: Mapping[Origin, ServerStatus], *, overwrite: bool) -> str:
        """Writes the bundle, if there is a call, and returns a line about it; raises the errors of `bundles.write`."""
        if self._row is None or self._judged is None:
            return f"{path} is not written: no result is wrong"
        line = line_of(self._row)
        bundles.write(path, Bundle.of(self._judged, line, servers[self._row.origin]), overwrite=overwrite)
        return f"{path} has the worst call, which `aclgrad call --bundle {path}` repeats: {line}"


def _share_of(row: Row) -> float:
    return error_of(row.figures.get("error_of_limit"))


def check_outputs(paths: Iterable[Path | None], *, overwrite: bool) -> None:
    """Raises ValueError if one of these files cannot be made, or exists and must not be replaced."""
    for path in filter(None, paths):
        checked_folder(path)
        # Pipes and /dev/null are only written to.
        if path.is_file():
            check_unwritten(path, overwrite=overwrite)


def judge_all(
    tasks: Sequence[Task],
    display: Display,
    path: Path | None,
    conclude: Callable[[Report], None],
    keep: Callable[[Row, JudgedProgram | None], None] = lambda *_: None,
) -> Report:
    """Judges the tasks, shows their rows, and writes them to the file at `path` as they come.

    `conclude` adds conclusions to the report, and `keep` gets each row with its call or program.
    """
    report = Report()
    with ExitStack() as stack:
        file = stack.enter_context(path.open("w", encoding="utf-8")) if path else None

        def take(row: Row, judged: JudgedProgram | None) -> None:
            if file:
                write_line(file, row.to_json())
            keep(row, judged)
            display.take(row)

        with display.of(len(tasks)):
            run(tasks, take, report)
        conclude(report)
        display.end(report)
        if file:
            write_line(file, {"summary": report.summary()})
    return report


Options = TypeVar("Options")


class Ended(Protocol):
    """An ended run: a report of rows, or another outcome."""

    @property
    def end(self) -> End: ...
    @property
    def message(self) -> str: ...
    @property
    def exit_code(self) -> int: ...


Told = Callable[[], Mapping[str, Any]]
"""What `--json` prints of a run."""


def exits_by_report(run: Callable[[Options], tuple[Ended, Told]]) -> Callable[[Options], NoReturn]:
    """Returns the command of this name: it exits by the report, or with a line that says why there is none."""

    @wraps(run)
    def command(options: Options) -> NoReturn:
        with exit_codes(run.__name__):
            report, told = run(options)
            if wants_json():
                print_json(told())
            if report.end is not End.COMPLETE:
                fail(run.__name__, f"{report.message}; the report is partial", report.exit_code)
            sys.exit(report.exit_code)

    return command
