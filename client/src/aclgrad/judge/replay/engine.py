"""The course of a replay: this CPU judges recorded results while a server computes its own.

Rows keep the order of calls.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from aclgrad.bridges.served_operators import served_by
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.recorded import Given
from aclgrad.judge.dumps.records import NOT_RECORDED, CallRow, TensorRow
from aclgrad.judge.findings.rows import Verdict, worst_of
from aclgrad.judge.replay.answers import Answer, Asked
from aclgrad.judge.replay.jobs import NO_OPERATOR, Job

_WINDOW_BYTES: Final = 2**28
"""Most bytes of calls under way; a larger call runs alone. Their float64 copies take several times as much."""
_MODULE: Final = "a module; a dump of level L1 has the functions in it"
WORKERS: Final = 16
"""Calls under way at once, because PyTorch's autograd requests gradients one by one."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    rows: Sequence[CallRow]
    answer: Future[Answer] | None
    reason: str
    """Why there is no answer."""
    size_bytes: int


class Engine:
    """Judges recorded results and those of one server."""

    def __init__(self, server: Asked, judge: Judge) -> None:
        self._server = server
        self._judge = judge

    def rows(
        self, calls: Iterable[Given | CallRow], job_of: Callable[[Given], Job | None], take: Callable[[Answer], None]
    ) -> Iterator[CallRow]:
        """Yields the rows of the calls. `take` gets each answer before its rows come.

        Raises one of GONE if the server has gone away, and DeadlinePassedError if it no longer answers; earlier rows
        are valid.
        """
        served_by(self._server.client)  # or each worker would ask
        window: deque[_UnderWay] = deque()
        workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="replay")

        def first() -> Iterator[CallRow]:
            under_way = window.popleft()
            answer = under_way.answer.result() if under_way.answer else None
            if answer:
                take(answer)
            for row in under_way.rows:
                yield with_server(row, answer or under_way.reason)

        try:
            for call in calls:
                job = None if isinstance(call, CallRow) else job_of(call)
                size = job.size_bytes if job else 0
                while window and (_is_done(window[0]) or _is_full(window, size)):
                    yield from first()
                answer = workers.submit(self._server.answer, job) if job else None
                rows = [call] if isinstance(call, CallRow) else list(self._judge.rows(call))
                window.append(_UnderWay(rows, answer, _reason(call), size))
            while window:
                yield from first()
        finally:
            # A stop waits for no call: those under way end with their client.
            workers.shutdown(wait=False, cancel_futures=True)


def _is_done(under_way: _UnderWay) -> bool:
    return under_way.answer is None or under_way.answer.done()


def _is_full(window: Sequence[_UnderWay], size: int) -> bool:
    waiting = [each for each in window if each.answer]
    return len(waiting) >= 2 * WORKERS or sum(each.size_bytes for each in waiting) + size > _WINDOW_BYTES


def _reason(call: Given | CallRow) -> str:
    """Returns why a server does not compute a call without a job."""
    if isinstance(call, CallRow):
        return call.message
    return _MODULE if call.entry.name.startswith("Module.") else NO_OPERATOR


def with_server(row: CallRow, answer: Answer | str) -> CallRow:
    """Returns the row of a pass with the server's side of its tensors, or the reason why it is missing.

    Recorded gradients of arguments, and results, have both sides in one tensor.
    """
    if isinstance(answer, str):
        return replace(row, unserved=answer) if row.is_backward else row
    found = answer.backward if row.is_backward else answer.forward
    if not found.tensors:
        return replace(row, unserved=found.reason)
    own = {(each.argument, each.result): each for each in found.tensors}
    tensors = [_merged(each, own.pop((each.argument, each.result), None)) for each in row.tensors]
    tensors += own.values()
    is_judged = row.verdict is not Verdict.SKIPPED
    verdicts = {side.verdict for each in tensors for side in each.sides.values()}
    verdict = worst_of(verdicts | ({row.verdict} if is_judged else set()))
    message = row.message if is_judged else f"{NOT_RECORDED}: {row.message}"
    return replace(row, verdict=verdict, message=message, tensors=tuple(tensors))


def _merged(recorded: TensorRow, computed: TensorRow | None) -> TensorRow:
    """Returns the tensor with both sides, and PyTorch's error in the call's own dtype."""
    if computed is None:
        return recorded
    sides = {**recorded.sides, **computed.sides}
    return replace(recorded, name=computed.name, pytorch_error=computed.pytorch_error, sides=sides)
