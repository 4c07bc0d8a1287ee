"""Computes the calls of a dump, several at a time, and judges each; what comes out has the order of what goes in."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import ml_dtypes
import numpy as np

from aclgrad._client.served import served_by
from aclgrad._client.sync.client import Client
from aclgrad.bundles import JudgedCall
from aclgrad.errors import AccessDeniedError, AclgradError, DeadlinePassedError, RequestError
from aclgrad.judgement.report import GONE
from aclgrad.judgement.rows import Finding, Origin, Row, Task, Verdict
from aclgrad.msprobe import cells
from aclgrad.operators.cases import arrays_of
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.reference import define
from aclgrad.torch._account import LocalError
from aclgrad.torch._recorded import Expected, RecordedCall, Served, dtype_of
from aclgrad.torch._tensors import Array

WORKERS: Final = 16
"""Calls under way: those that wait for the server together share its messages."""
_WINDOW_BYTES: Final = 2**30
"""The tensors of calls under way; a larger one goes alone. Their float64 forms take several times as much."""

_LONGEST_REASON: Final = 500
"""In characters."""


@dataclass(frozen=True, slots=True)
class Job:
    """One API of a dump, "Functional.pad.0", and its call, or why there is none."""

    name: str
    call: RecordedCall | None
    reason: str = ""

    @property
    def api(self) -> str:
        """The API without the number of the call."""
        return self.name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Judged:
    """One API of a dump: a row for each gradient, and acc_check's rows for each positional tensor.

    The rows of PyTorch's gradients mean nothing if the engine has no device for them.
    """

    job: Job
    rows: Sequence[Row]
    of_server: Sequence[cells.Row]
    of_pytorch: Sequence[cells.Row]
    served: Served | None = None

    def sent(self, row: Row) -> JudgedCall | None:
        """Returns what the server was sent for it, judged as the row was, or None if nothing was."""
        if self.served is None:
            return None
        sent = self.served.sent[0]
        operator = OPERATORS[sent.operator]
        truths = zip(operator.outputs, arrays_of(define(sent.operator, sent.inputs, sent.attributes)), strict=True)
        limits = (row.figures[name] or 0.0 for name in ("relative_tolerance", "absolute_tolerance"))
        return JudgedCall(
            sent.operator,
            sent.inputs,
            sent.attributes,
            gradients=sent.gradients,
            expected={each.name: truth for each, truth in truths if each.name in sent.gradients},
            computed_by="the definition",
            tolerance=Tolerance(*limits),
            outputs=tuple(sent.gradients) if len(sent.gradients) < len(operator.outputs) else (),
        )


class Engine:
    """Judges calls by one server. PyTorch computes its own gradients on the device `local`, or on the CPU."""

    def __init__(self, client: Client, origin: Origin, local: str | None) -> None:
        self._client = client
        self._origin = origin
        self._local = local

    def judge(self, jobs: Iterable[Job], place: str) -> Iterator[Judged]:
        """Yields what became of each call; `place` says in the rows which dump it is from.

        Raises one of GONE where the server has gone away, and DeadlinePassedError where it no longer answers; what was
        yielded before stands.
        """
        served_by(self._client)  # or each worker would ask
        window: deque[tuple[int, Future[Judged]]] = deque()
        held = 0
        workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="replay")
        try:
            for job in jobs:
                size = job.call.size_bytes if job.call else 0
                while window and (len(window) >= 2 * WORKERS or held + size > _WINDOW_BYTES):
                    freed, first = window.popleft()
                    held -= freed
                    yield first.result()
                window.append((size, workers.submit(self._judge, job, place)))
                held += size
            while window:
                yield window.popleft()[1].result()
        finally:
            # Whoever stops waits for no call: those under way end with their client.
            workers.shutdown(wait=False, cancel_futures=True)

    def unreadable(self, place: str, reason: str) -> Judged:
        """Returns what became of a dump that cannot be read."""
        finding = Finding(Verdict.SKIPPED, _printable(reason))
        task = Task(self._origin, "replay", "", "", (), place, lambda: finding)
        return Judged(Job(place, None, reason), [Row.of(task, finding, 0.0)], (), ())

    def _judge(self, job: Job, place: str) -> Judged:
        begin = time.monotonic()

        def row(name: str, shape: tuple[int, ...], finding: Finding) -> Row:
            dtype = dtype_of(job.call) if job.call else ""
            case = " ".join(part for part in (place, job.name, name) if part)
            task = Task(self._origin, "replay", job.api, dtype, shape, case, lambda: finding)
            return Row.of(task, finding, time.monotonic() - begin)

        def without_gradient(verdict: Verdict, reason: str) -> Judged:
            shape, reason = tuple(job.call.grad_output.shape) if job.call else (), _printable(reason)
            skipped = [cells.skipped(reason)]
            return Judged(job, [row("", shape, Finding(verdict, reason))], skipped, skipped)

        if job.call is None:
            return without_gradient(Verdict.SKIPPED, job.reason)
        try:
            job.call.check_output(self._client)
            served = Served.of(job.call, self._client)
            expected = Expected.of(job.call, self._local or "cpu")
        except GONE:
            raise
        except (LocalError, RequestError, AccessDeniedError) as reason:
            return without_gradient(Verdict.SKIPPED, str(reason))
        except DeadlinePassedError as error:
            # Is it the call that takes so long, or does the server no longer answer at all?
            self._client.server_status()
            return without_gradient(Verdict.FAILED, f"{type(error).__name__}: {error}")
        except AclgradError as error:
            return without_gradient(Verdict.FAILED, f"{type(error).__name__}: {error}")
        except Exception as reason:  # PyTorch has many for arguments, and a dump may have any
            return without_gradient(Verdict.SKIPPED, f"PyTorch refuses the call: {reason}")
        return self._compared(job, served, expected, row)

    def _compared(self, job: Job, served: Served, expected: Expected, row: Callable[..., Row]) -> Judged:
        assert job.call is not None
        names, rows = job.call.names(), []
        of_server, of_pytorch = {}, {}
        for place, gradient in served.gradients.items():
            of_server[place] = _cells(expected.truths[place], gradient)
            if self._local:
                of_pytorch[place] = _cells(expected.truths[place], expected.benchmarks[place])
            finding = _with_status(served.judge(place, expected, self._client), of_server[place])
            rows.append(row(names[place], gradient.shape, finding))
        tensors = [place for place in job.call.inputs() if place.isdigit()]
        pair = (of_server, of_pytorch)
        ours, theirs = ([found.get(each, _UNWANTED) for each in tensors] or [_KEYWORDS] for found in pair)
        return Judged(job, rows, ours, theirs, served)


def _printable(text: str) -> str:
    """Returns one line of a terminal: a reason may quote whatever a dump has."""
    line = " ".join(text.split())[:_LONGEST_REASON]
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)


_UNWANTED: Final = cells.skipped("The tensor needs no gradient.")
_KEYWORDS: Final = cells.skipped("All tensors are keyword arguments, whose gradients acc_check does not look at.")


def _cells(truth: Array, gradient: Array) -> cells.Row:
    """Returns acc_check's row: its reference is the truth, rounded as its own is."""
    dtype = gradient.dtype.name
    with np.errstate(over="ignore"):
        rounded = truth.astype(cells.reference_dtype(dtype))
    return cells.row(rounded, gradient.astype(np.float32) if gradient.dtype == ml_dtypes.bfloat16 else gradient, dtype)


def _with_status(finding: Finding, row: cells.Row) -> Finding:
    """Returns the finding, and where acc_check sees something that is right by the finding, a note of it."""
    if finding.verdict is not Verdict.PASSED or row.status in (cells.Status.PASS, cells.Status.SKIP):
        return finding
    message = f"acc_check says {row.status}, but PyTorch's own error is as large: {row.message}"
    return replace(finding, verdict=Verdict.NOTED, message=message)
