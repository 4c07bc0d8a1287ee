"""One run: plans the tasks of every check, judges them one after the other, and always ends with a report."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from aclgrad.bundles import JudgedCall
from aclgrad.check.gradients import accuracy, fills, layouts
from aclgrad.check.repetition import against, determinism, shape_only
from aclgrad.check.selection import Selection
from aclgrad.check.service import latency, listing, memory
from aclgrad.check.switches import judge_all_switches
from aclgrad.check.target import CheckError, Target
from aclgrad.errors import AclgradError, LimitExceededError
from aclgrad.judgement.report import GONE, End, Report
from aclgrad.judgement.rows import Finding, Row, Task, Verdict

Check = Callable[[Selection], Iterator[Task]]

CHECKS: Final[dict[str, Check]] = {
    check.__name__: check for check in (listing, accuracy, layouts, fills, determinism, shape_only, latency, memory)
}
"""In the order in which they run; memory is last, because it looks at what the others left behind."""


def plan(target: Target, other: Target | None, only: Collection[str] = (), *, is_quick: bool) -> list[Task]:
    """Returns the tasks on one server, or on both and between them; raises CheckError if they cannot be compared.

    `only` names the checks to make; all of them by default. What is served is listed in any case.
    """
    first = Selection(target, is_quick)
    tasks = _tasks(first, only)
    if other is not None:
        if other.product is not target.product:
            raise CheckError(
                f"{target.origin.target} serves product {target.product} and {other.origin.target} {other.product}; "
                "compare servers on the same product"
            )
        second = Selection(other, is_quick)
        tasks = [*tasks, *_tasks(second, only), *against(first, second)]
    return tasks


def run(
    tasks: Sequence[Task],
    targets: Sequence[Target],
    other: Target | None,
    take: Callable[[Row, JudgedCall | None], None],
    report: Report,
) -> None:
    """Judges the tasks, passes each row and what was judged to `take`, and fills in the report, also if interrupted."""
    report.planned = len(tasks)
    start = time.monotonic()
    try:
        for task in tasks:
            begin = time.monotonic()
            finding = _judged(task)
            row = Row.of(task, finding, time.monotonic() - begin)
            report.rows.append(row)
            take(row, finding.call)
    except KeyboardInterrupt:
        report.end, report.message = End.INTERRUPTED, f"interrupted after {len(report.rows)} of {len(tasks)} rows"
    except GONE as error:
        done = f"after {len(report.rows)} of {len(tasks)} rows"
        report.end, report.message = End.SERVER_GONE, f"the server went away {done}, at {_name(task)}: {error}"
    report.seconds = time.monotonic() - start
    report.switches = judge_all_switches(report.rows, targets, other, report.end is End.COMPLETE)


def _tasks(selection: Selection, only: Collection[str]) -> list[Task]:
    chosen = {listing.__name__, *only} if only else CHECKS.keys()
    return [task for name, check in CHECKS.items() if name in chosen for task in check(selection)]


def _judged(task: Task) -> Finding:
    try:
        return task.judge()
    except GONE:
        raise
    except LimitExceededError as error:
        return Finding(Verdict.SKIPPED, f"the server refuses the call: {error}")
    except AclgradError as error:
        return Finding(Verdict.FAILED, f"{type(error).__name__}: {error}")


def _name(task: Task) -> str:
    return " ".join(part for part in (task.check, task.operator, task.dtype, task.case) if part)
