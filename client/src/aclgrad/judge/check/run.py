"""What a run checks: the tasks of every check."""

from collections.abc import Callable, Collection, Iterator
from typing import Final

from aclgrad.judge.check.gradients import accuracy, fills, layouts
from aclgrad.judge.check.invariance import invariance
from aclgrad.judge.check.repetition import determinism, shape_only
from aclgrad.judge.check.selection import Selection
from aclgrad.judge.check.service import latency, listing, memory
from aclgrad.judge.check.statistics import statistics
from aclgrad.judge.check.target import Target
from aclgrad.judge.findings.rows import Task

Check = Callable[[Selection], Iterator[Task]]

CHECKS: Final[dict[str, Check]] = {
    check.__name__: check
    for check in (listing, accuracy, statistics, layouts, fills, determinism, shape_only, invariance, latency, memory)
}
"""In the order in which they run; memory is last, because it looks at what the others left behind."""
_ON_REQUEST: Final = {invariance.__name__}
"""No card promises it, and most programs do not need it."""


def tasks_of(target: Target, only: Collection[str] = (), *, is_quick: bool) -> list[Task]:
    """Returns the tasks on a server.

    `only` names the checks to make; by default all but those on request. What is served is listed in any case.
    """
    selection = Selection(target, is_quick)
    chosen = {listing.__name__, *only} if only else CHECKS.keys() - _ON_REQUEST
    return [task for name, check in CHECKS.items() if name in chosen for task in check(selection)]
