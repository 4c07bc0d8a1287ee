"""A server's results of a call, compared with float64 and PyTorch, and its gradients in acc_check's rows."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar

import ml_dtypes
import numpy as np

from aclgrad._client.sync.client import Client
from aclgrad.errors import AccessDeniedError, AclgradError, DeadlinePassedError, RequestError
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.dumps.choices import NotJudgedError
from aclgrad.judge.dumps.limits import largest_error, side_of
from aclgrad.judge.dumps.records import SERVER, Side, TensorRow, line_of
from aclgrad.judge.findings.rows import GONE, Finding, Origin, Row, Task, Verdict
from aclgrad.judge.msprobe import cells
from aclgrad.judge.replay.calls import Expected, ServerGradients, dtype_of
from aclgrad.judge.replay.jobs import Job
from aclgrad.judge.replay.outputs import ServerOutputs, as_tensor
from aclgrad.judge.replay.sent import judged_program
from aclgrad.operators.spec import Tolerance
from aclgrad.torch.calls import Array, LocalError

_UNWANTED: Final = cells.skipped("The tensor needs no gradient.")
_TOLERANCE: Final = ("relative_tolerance", "absolute_tolerance")
_KEYWORDS: Final = cells.skipped("All tensors are keyword arguments, whose gradients acc_check does not look at.")


@dataclass(frozen=True, slots=True)
class Failed:
    """A failed tensor: the bundle's description of the worst call, and the call sent to the server."""

    row: Row
    sent: Callable[[Tolerance], JudgedProgram]

    def judged(self) -> JudgedProgram:
        """Returns the sent call with its tolerance."""
        relative, absolute = (self.row.figures.get(name) or 0.0 for name in _TOLERANCE)
        return self.sent(Tolerance(relative, absolute))


@dataclass(frozen=True, slots=True)
class Pass:
    """A server's results of the forward or the backward pass of a call, or why there are none.

    A forward pass that computes nothing has neither.
    """

    tensors: Sequence[TensorRow] = ()
    reason: str = ""
    failed: Sequence[Failed] = ()


@dataclass(frozen=True, slots=True)
class Gradients(Pass):
    """A backward pass, with acc_check's rows for each positional tensor.

    Without a device for them, the rows of PyTorch's gradients have no meaning.
    """

    of_server: Sequence[cells.Row] = ()
    of_pytorch: Sequence[cells.Row] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The outcome of a call."""

    job: Job
    backward: Gradients
    forward: Pass


_Pass = TypeVar("_Pass", bound=Pass)


@dataclass(frozen=True, slots=True)
class Asked:
    """Judges a server's calls. PyTorch computes its own gradients on the device `local`, or on the CPU."""

    client: Client
    origin: Origin
    local: str | None

    def answer(self, job: Job) -> Answer:
        """Judges one call.

        Raises one of GONE if the server has gone away, and DeadlinePassedError if it no longer answers.
        """
        gradients = self._tried(partial(self._gradients, job), partial(_without_gradient, job))
        return Answer(job, gradients, self._tried(partial(self._outputs, job), partial(_without_output, job)))

    def _tried(self, judge: Callable[[], _Pass], without: Callable[[str, AclgradError | None], _Pass]) -> _Pass:
        """Returns the judged results, or the result of `without`, for a reason or an error of the server."""
        try:
            return judge()
        except GONE:
            raise
        except (LocalError, NotJudgedError, RequestError, AccessDeniedError) as reason:
            return without(str(reason), None)
        except AclgradError as error:
            if isinstance(error, DeadlinePassedError):
                # Is this call slow, or does the server no longer answer at all?
                self.client.server_status()
            return without(f"{type(error).__name__}: {error}", error)
        except Exception as reason:  # PyTorch has many errors for arguments
            return without(f"PyTorch refuses the call: {reason}", None)

    def _failed(
        self, job: Job, result: Array, name: str, finding: Finding, sent: Callable[[Tolerance], JudgedProgram]
    ) -> Failed:
        case, dtype = f"{job.name} {name}", result.dtype.name
        task = Task(self.origin, "replay", job.api, dtype, result.shape, case, lambda: finding)
        return Failed(Row.of(task, finding, seconds=0.0), sent)

    def _outputs(self, job: Job) -> Pass:
        if isinstance(job.forward, str):
            return Pass(reason=job.forward)
        actual = ServerOutputs.of(job.forward, self.client)
        if actual is None:
            return Pass()
        tensors, failed = [], []
        for number, each in actual.outputs.items():
            finding = actual.judge(each)
            if each.is_exact:
                side, error = actual.exact_side(each), None
            else:
                side = _side(finding, each.result, each.truth, each.benchmark)
                error = largest_error(as_tensor(each.benchmark), as_tensor(each.truth))
            own = {SERVER: side}
            tensors.append(TensorRow(each.name, each.result.dtype.name, each.result.shape, error, own, result=number))
            if side.verdict is Verdict.FAILED:
                failed.append(self._failed(job, each.result, each.name, finding, actual.sent))
        return Pass(tensors, failed=failed)

    def _gradients(self, job: Job) -> Gradients:
        call = job.call
        if call is None:
            return _without_gradient(job, job.reason, None) if job.reason else Gradients()
        call.check_output(self.client)
        actual = ServerGradients.of(call, self.client)
        expected = Expected.of(call, self.local or "cpu")
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
            error, name = largest_error(as_tensor(benchmark), as_tensor(truth)), f"gradient of {names[key]}"
            argument, dtype = keys.index(key), gradient.dtype.name
            tensors.append(TensorRow(name, dtype, gradient.shape, error, {SERVER: side}, argument))
            if side.verdict is Verdict.FAILED:
                failed.append(self._failed(job, gradient, names[key], finding, partial(judged_program, actual.sent)))
        positional = [key for key in keys if key.isdigit()]
        pair = (of_server, of_pytorch)
        ours, theirs = ([found.get(each, _UNWANTED) for each in positional] or [_KEYWORDS] for found in pair)
        return Gradients(tensors, failed=failed, of_server=ours, of_pytorch=theirs)


def _without_gradient(job: Job, reason: str, error: AclgradError | None) -> Gradients:
    """Returns the outcome of a call that a server has not computed, or failed with an error."""
    text = line_of(reason)
    skipped = [cells.skipped(text)]
    if error is None or job.call is None:
        return Gradients(reason=text, of_server=skipped, of_pytorch=skipped)
    shape = tuple(job.call.grad_output.shape)
    row = TensorRow("gradients", dtype_of(job.call), shape, None, {SERVER: Side(Verdict.FAILED, text)})
    return Gradients([row], of_server=skipped, of_pytorch=skipped)


def _without_output(job: Job, reason: str, error: AclgradError | None) -> Pass:
    text = line_of(reason)
    recorded = () if isinstance(job.forward, str) else job.forward.outputs
    first = next((each.info for each in recorded if each is not None), None)
    if error is None or first is None:
        return Pass(reason=text)
    return Pass([TensorRow("outputs", first.dtype, first.shape, None, {SERVER: Side(Verdict.FAILED, text)})])


def _side(finding: Finding, gradient: Array, truth: Array, benchmark: Array) -> Side:
    """Returns the server's side: the finding's verdict, with the figures of its limits for each element."""
    right, relative, absolute = as_tensor(truth), *_limits(finding)
    side = side_of(as_tensor(gradient), right, relative * right.abs() + absolute, as_tensor(benchmark))
    if finding.verdict is side.verdict is Verdict.FAILED:
        return side
    worst = finding.worst if finding.verdict is Verdict.FAILED else ()
    return Side(finding.verdict, finding.message, side.error, side.limit, worst=worst)


def _limits(finding: Finding) -> tuple[float, float]:
    figures = finding.figures
    return figures["relative_tolerance"] or 0.0, figures["absolute_tolerance"] or 0.0


def _cells(truth: Array, gradient: Array) -> cells.Row:
    """Returns acc_check's row, whose reference is the truth, rounded like acc_check's own."""
    dtype = gradient.dtype.name
    with np.errstate(over="ignore"):
        rounded = truth.astype(cells.reference_dtype(dtype))
    return cells.row(rounded, gradient.astype(np.float32) if gradient.dtype == ml_dtypes.bfloat16 else gradient, dtype)


def _with_status(finding: Finding, row: cells.Row) -> Finding:
    """Returns the finding, with a note if it passed but acc_check reports a problem."""
    if finding.verdict is not Verdict.PASSED or row.status in (cells.Status.PASS, cells.Status.SKIP):
        return finding
    message = f"acc_check says {row.status}, but PyTorch's own error is as large: {row.message}"
    return replace(finding, verdict=Verdict.NOTED, message=message)
