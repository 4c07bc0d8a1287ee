"""The calls of an msprobe dump, in the form for comparing two servers."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import Final, Self

from aclgrad.bridges.products import COMPOSITES
from aclgrad.errors import RequestError
from aclgrad.judge.check.repetition import repeated
from aclgrad.judge.check.target import Target
from aclgrad.judge.compare.pairs import AT_ONCE, Answer, Call, NotComparedError
from aclgrad.judge.dumps.recorded import Source
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding
from aclgrad.judge.msprobe.dump import DumpError, Entry, EntryError, Found, find_dumps, tensors
from aclgrad.judge.replay.calls import Expected, PyTorchCall, ServerGradients
from aclgrad.judge.replay.jobs import Job, read_jobs, served_entries
from aclgrad.operators.cases import returned_arrays
from aclgrad.torch.calls import Array, LocalError, SentCall

_HELD_BYTES: Final = 2**28
"""The most bytes of a call's repetitions; a larger call is repeated once."""


@dataclass(frozen=True, slots=True, eq=False)
class DumpQuestion:
    """A call of a dump, judged by float64 and by PyTorch's own error."""

    call: PyTorchCall
    expected: Expected
    names: Mapping[str, str]

    @classmethod
    def of(cls, jobs: Iterator[Job]) -> Self:
        """Takes the next call; raises NotComparedError if it cannot be repeated."""
        job = next(jobs)
        if job.call is None:
            raise NotComparedError(job.reason)
        try:
            return cls(job.call, Expected.of(job.call, "cpu"), job.call.names())
        except Exception as reason:  # PyTorch has many errors for arguments
            raise NotComparedError(f"PyTorch refuses the call: {reason}") from reason

    def ask(self, target: Target) -> Answer:
        try:
            actual = ServerGradients.of(self.call, target.client)
        except (LocalError, RequestError) as reason:
            raise NotComparedError(str(reason)) from reason
        times = max(1, min(AT_ONCE, _HELD_BYTES // max(self.call.size_bytes, 1)))
        first = tuple(array for each in actual.sent for array in each.gradients.values())
        again = zip(*(_again(target, each, times) for each in actual.sent), strict=True)
        gradients = {self.names[key]: each for key, each in actual.gradients.items()}
        return Answer(gradients, [first, *(tuple(chain.from_iterable(run)) for run in again)], actual)

    def judge(self, target: Target, answer: Answer) -> Finding:
        actual = answer.source
        found = {self.names[each]: actual.judge(each, self.expected, target.client) for each in actual.gradients}
        return comparison.worst_output(found)


def _again(target: Target, sent: SentCall, times: int) -> Sequence[tuple[Array, ...]]:
    """Returns the gradients of this many repetitions of the call, in one message."""
    if sent.operator not in COMPOSITES:
        call = (sent.operator, sent.inputs, sent.attributes)
        runs = repeated(target, 0, times, *call, outputs=tuple(sent.gradients))
        return [returned_arrays(run) for run in runs]
    composite, program = COMPOSITES[sent.operator], target.client.program()
    wanted = [name in sent.gradients for name in composite.outputs]
    handles = [composite.add_steps(program, **sent.inputs, **sent.attributes, wanted=wanted) for _ in range(times)]
    found: list[tuple[Array, ...]] = program.run(*(tuple(compress(each, wanted)) for each in handles))
    return found


def dump_calls(dump: Path, only: Collection[str]) -> Iterator[Call]:
    """Yields the calls of every step and rank that operators compute; raises DumpError if there are none.

    Their questions have to be asked in this order, each once, because random inputs depend on earlier ones.
    """
    is_empty = True
    for found in find_dumps(dump):
        for call in _calls_of(found, only):
            yield call
            is_empty = False
    if is_empty:
        remedy = "dump again with data_mode all, and call backward() before stop()"
        raise DumpError(f"{dump} has no backward pass of a function that an operator differentiates; {remedy}")


def _calls_of(found: Found, only: Collection[str]) -> Iterator[Call]:
    source = Source.of(found, only)
    place = f"{source.place} " if source.place else ""
    entries = served_entries(source)
    names = {entry.name for entry in entries}
    jobs = read_jobs(source.dump, lambda entry: entry.name in names)
    for entry in entries:
        dtype, shape = _output_of(entry)
        yield Call(f"{entry.prefix}.{entry.api}", dtype, shape, place + entry.name, partial(DumpQuestion.of, jobs))


def _output_of(entry: Entry) -> tuple[str, tuple[int, ...]]:
    try:
        info = next(tensors(entry.grad_outputs), None)
    except EntryError:
        info = None
    return (info.dtype, info.shape) if info else ("", ())
