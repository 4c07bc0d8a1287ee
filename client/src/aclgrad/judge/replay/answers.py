"""Judges the calls of a dump: what is recorded on this CPU, and meanwhile what a server computes of them.

What comes out has the order of what goes in. A server's gradients stand beside float64 and PyTorch, and in acc_check's
rows.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

import ml_dtypes
import numpy as np
import torch

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served import served_by
from aclgrad.errors import AccessDeniedError, AclgradError, DeadlinePassedError, RequestError
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.dumps.judging import Judge
from aclgrad.judge.dumps.limits import largest_error, side_of
from aclgrad.judge.dumps.recorded import Given
from aclgrad.judge.dumps.records import NOT_RECORDED, SERVER, CallRow, Side, TensorRow, line_of
from aclgrad.judge.findings.rows import GONE, Finding, Origin, Row, Task, Verdict, worst_of
from aclgrad.judge.msprobe import cells
from aclgrad.judge.replay.calls import Expected, Job, PyTorchCall, ServerGradients, dtype_of
from aclgrad.judge.replay.sent import judged_program
from aclgrad.operators.spec import Tolerance
from aclgrad.torch.calls import Array, LocalError, tensor_of

_UNWANTED: Final = cells.skipped("The tensor needs no gradient.")
_KEYWORDS: Final = cells.skipped("All tensors are keyword arguments, whose gradients acc_check does not look at.")
_WINDOW_BYTES: Final = 2**28
"""The tensors of calls under way; a larger one goes alone. Their float64 forms take several times as much."""
_NO_OPERATOR: Final = "no operator computes this gradient"
_MODULE: Final = "a module; a dump of level L1 has the functions in it"


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a call: a tensor for each gradient, and acc_check's rows for each positional tensor.

    The rows of PyTorch's gradients mean nothing if there is no device for them.
    """

    job: Job
    of_server: Sequence[cells.Row]
    of_pytorch: Sequence[cells.Row]
    tensors: Sequence[TensorRow] = ()
    reason: str = ""
    """Why the server has computed no gradient."""
    failed: Sequence[Row] = ()
    actual: ServerGradients | None = None

    def sent(self, row: Row) -> JudgedProgram | None:
        """Returns what the server was sent for a gradient that failed, or None if nothing was."""
        if self.actual is None:
            return None
        relative, absolute = (row.figures[name] or 0.0 for name in ("relative_tolerance", "absolute_tolerance"))
        return judged_program(self.actual.sent, Tolerance(relative, absolute))


@dataclass(frozen=True, slots=True)
class Asked:
    """A server that calls are judged by. PyTorch computes its own gradients on the device `local`, or on the CPU."""

    client: Client
    origin: Origin
    local: str | None

    def answer(self, job: Job) -> Answer:
        """Judges one call.

        Raises one of GONE where the server has gone away, and DeadlinePassedError where it no longer answers.
        """
        if job.call is None:
            return _without_gradient(job, reason=job.reason)
        try:
            job.call.check_output(self.client)
            actual = ServerGradients.of(job.call, self.client)
            return self._compared(job, job.call, actual, Expected.of(job.call, self.local or "cpu"))
        except GONE:
            raise
        except (LocalError, RequestError, AccessDeniedError) as reason:
            return _without_gradient(job, reason=str(reason))
        except DeadlinePassedError as error:
            # Is it the call that takes so long, or does the server no longer answer at all?
            self.client.server_status()
            return _without_gradient(job, error=error)
        except AclgradError as error:
            return _without_gradient(job, error=error)
        except Exception as reason:  # PyTorch has many for arguments, and a dump may have any
            return _without_gradient(job, reason=f"PyTorch refuses the call: {reason}")

    def _row(self, job: Job, call: PyTorchCall, name: str, finding: Finding) -> Row:
        """Returns what the bundle of the worst call says of it."""
        shape, case = tuple(call.grad_output.shape), f"{job.name} {name}"
        task = Task(self.origin, "replay", job.api, dtype_of(call), shape, case, lambda: finding)
        return Row.of(task, finding, seconds=0.0)

    def _compared(self, job: Job, call: PyTorchCall, actual: ServerGradients, expected: Expected) -> Answer:
        names, keys = call.names(), list(call.inputs())
        tensors, failed = [], []
        of_server, of_pytorch = {}, {}
        for key, gradient in actual.gradients.items():
            truth, benchmark = expected.truths[key], expected.benchmarks[key]
            of_server[key] = _cells(truth, gradient)
            if self.local:
                of_pytorch[key] = _cells(truth, benchmark)
            finding = _with_status(actual.judge(key, expected, self.client), of_server[key])
            side = _side(finding, gradient, truth, benchmark)
            error, name = largest_error(_tensor(benchmark), _tensor(truth)), f"gradient of {names[key]}"
            argument, dtype = keys.index(key), gradient.dtype.name
            tensors.append(TensorRow(name, dtype, gradient.shape, error, {SERVER: side}, argument))
            if side.verdict is Verdict.FAILED:
                failed.append(self._row(job, call, names[key], finding))
        positional = [key for key in keys if key.isdigit()]
        pair = (of_server, of_pytorch)
        ours, theirs = ([found.get(each, _UNWANTED) for each in positional] or [_KEYWORDS] for found in pair)
        return Answer(job, ours, theirs, tensors, failed=failed, actual=actual)


def _without_gradient(job: Job, *, reason: str = "", error: AclgradError | None = None) -> Answer:
    """Returns the answer of a server that has computed nothing, or that has failed with an error."""
    text = line_of(reason or f"{type(error).__name__}: {error}")
    skipped = [cells.skipped(text)]
    if error is None or job.call is None:
        return Answer(job, skipped, skipped, reason=text)
    side = Side(Verdict.FAILED, text)
    shape = tuple(job.call.grad_output.shape)
    return Answer(job, skipped, skipped, [TensorRow("gradients", dtype_of(job.call), shape, None, {SERVER: side})])


def _side(finding: Finding, gradient: Array, truth: Array, benchmark: Array) -> Side:
    """Returns the server's side: the finding's verdict, with the figures of its limits for each element."""
    right, relative, absolute = _tensor(truth), *_limits(finding)
    side = side_of(_tensor(gradient), right, relative * right.abs() + absolute, _tensor(benchmark))
    if finding.verdict is side.verdict is Verdict.FAILED:
        return side
    worst = finding.worst if finding.verdict is Verdict.FAILED else ()
    return Side(finding.verdict, finding.message, side.error, side.limit, worst=worst)


def _limits(finding: Finding) -> tuple[float, float]:
    figures = finding.figures
    return figures["relative_tolerance"] or 0.0, figures["absolute_tolerance"] or 0.0


def _tensor(array: Array) -> torch.Tensor:
    return tensor_of(array if array.flags.writeable else array.copy())


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


WORKERS: Final = 16
"""Calls under way: PyTorch's autograd asks for each gradient by itself."""


@dataclass(frozen=True, slots=True)
class _UnderWay:
    rows: Sequence[CallRow]
    answer: Future[Answer] | None
    reason: str
    """Why there is no answer."""
    size_bytes: int


class Engine:
    """Judges calls by what is recorded and by one server."""

    def __init__(self, server: Asked, judge: Judge) -> None:
        self._server = server
        self._judge = judge

    def rows(
        self, calls: Iterable[Given | CallRow], job_of: Callable[[Given], Job | None], take: Callable[[Answer], None]
    ) -> Iterator[CallRow]:
        """Yields the rows of the calls. `take` gets each answer before its rows come.

        Raises one of GONE where the server has gone away, and DeadlinePassedError where it no longer answers; what was
        yielded before stands.
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
                yield with_server(row, answer or under_way.reason) if ".backward" in row.name else row

        try:
            for call in calls:
                job = None if isinstance(call, CallRow) else job_of(call)
                size = job.call.size_bytes if job and job.call else 0
                while window and (_is_done(window[0]) or _is_full(window, size)):
                    yield from first()
                answer = workers.submit(self._server.answer, job) if job else None
                rows = [call] if isinstance(call, CallRow) else list(self._judge.rows(call))
                window.append(_UnderWay(rows, answer, _reason(call), size))
            while window:
                yield from first()
        finally:
            # Whoever stops waits for no call: those under way end with their client.
            workers.shutdown(wait=False, cancel_futures=True)


def _is_done(under_way: _UnderWay) -> bool:
    return under_way.answer is None or under_way.answer.done()


def _is_full(window: Sequence[_UnderWay], size: int) -> bool:
    waiting = [each for each in window if each.answer]
    return len(waiting) >= 2 * WORKERS or sum(each.size_bytes for each in waiting) + size > _WINDOW_BYTES


def _reason(call: Given | CallRow) -> str:
    """Returns why a server does not compute a call that is no job."""
    if isinstance(call, CallRow):
        return call.message
    return _MODULE if call.entry.name.startswith("Module.") else _NO_OPERATOR


def with_server(row: CallRow, answer: Answer | str) -> CallRow:
    """Returns the row of a backward pass with the server's side of its gradients, or why there is none.

    Where the recorded gradient of a tensor is that of an argument, both sides are those of one tensor.
    """
    if isinstance(answer, str) or not answer.tensors:
        return replace(row, unserved=answer if isinstance(answer, str) else answer.reason)
    own = {each.argument: each for each in answer.tensors}
    tensors = [_merged(each, own.pop(each.argument, None)) for each in row.tensors]
    tensors += own.values()
    is_judged = row.verdict is not Verdict.SKIPPED
    found = {side.verdict for each in tensors for side in each.sides.values()} | ({row.verdict} if is_judged else set())
    verdict = worst_of(found)
    message = row.message if is_judged else f"{NOT_RECORDED}: {row.message}"
    return replace(row, verdict=verdict, message=message, tensors=tuple(tensors))


def _merged(recorded: TensorRow, computed: TensorRow | None) -> TensorRow:
    """Returns the tensor with both sides, and the error of PyTorch in the call's own dtype."""
    if computed is None:
        return recorded
    sides = {**recorded.sides, **computed.sides}
    return replace(recorded, name=computed.name, pytorch_error=computed.pytorch_error, sides=sides)
