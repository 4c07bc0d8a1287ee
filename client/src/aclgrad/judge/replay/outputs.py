"""The results of one call in float64, by PyTorch's own kernels, and by a server.

The server computes the call's ATen operators as one program.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from aclgrad._client.calls.handles import Handle
from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import served_by
from aclgrad.judge.bundles import JudgedProgram
from aclgrad.judge.dumps.choices import are_ties
from aclgrad.judge.dumps.computed import Computed
from aclgrad.judge.dumps.limits import exact_side
from aclgrad.judge.dumps.recorded import Recorded, mapped, tensors_of
from aclgrad.judge.dumps.records import Side
from aclgrad.judge.dumps.runs import WIDE, Dtypes, run
from aclgrad.judge.findings import comparison
from aclgrad.judge.findings.rows import Finding, Verdict
from aclgrad.judge.programs.program import Program, Returned
from aclgrad.judge.programs.recording import Recorder
from aclgrad.judge.programs.sending import send
from aclgrad.judge.replay.sent import Limit, limit_of_program
from aclgrad.judge.replay.translating import Translation
from aclgrad.judge.replay.whole import WHOLE
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.tensors import row_major
from aclgrad.torch.aten import Steps
from aclgrad.torch.aten.steps import laid_out
from aclgrad.torch.calls import Array, LocalError, array_of, tensor_of

_HALF_ULP: Final = torch.finfo(torch.float32).eps / 2
BY_PYTORCH: Final = "PyTorch"
"""The name in bundles of what computed expected values."""


@dataclass(frozen=True, slots=True)
class Output:
    """One result of a call: the server's, the right one, and the one of PyTorch's own kernels.

    `rounding` is how far the truth moves if the call's inputs are rounded.
    """

    name: str
    result: Array
    truth: Array
    benchmark: Array
    rounding: Array
    returned: Returned
    """Its output of the program."""

    @property
    def is_exact(self) -> bool:
        """Whether it has integers or truth values, which do not round."""
        return self.result.dtype.kind in "iub"


@dataclass(frozen=True, slots=True)
class ServerOutputs:
    """A server's results of a call by position, and the program sent for them.

    Results that are an argument, or a part of one, are omitted.
    """

    function: str
    sources: tuple[Tensor, ...]
    outputs: Mapping[int, Output]
    program: Program
    limit: Limit

    @classmethod
    def of(cls, call: Recorded, client: Client) -> "ServerOutputs | None":
        """Returns None for a call that computes nothing.

        Raises LocalError, with the reason, if no operators of the server compute the results, and NotJudgedError if the
        call cannot be repeated.
        """
        computed, served = Computed(call), served_by(client)
        if computed.seen.returns_argument and not computed.api.is_in_place:
            return None
        recorder = Recorder()
        handles, benchmarks = _translated(computed, recorder, served.product)
        if not handles:
            return None
        program, places = recorder.program.for_outputs([(each.step, each.output) for each in handles.values()])
        for step in program.steps:
            served.check(step.operator, {each.name: each.type for each in step.inputs}, step.attributes)
        sent = send(client, program, list(dict.fromkeys(places)))
        truths = computed.wide.outputs
        moved = run(computed.api, call, Dtypes(WIDE, computed.first, _moved)).outputs
        outputs = {}
        for (number, handle), place in zip(handles.items(), places, strict=True):
            truth = _wide(truths[number])
            with np.errstate(invalid="ignore"):
                rounding = np.nan_to_num(_wide(moved[number]) - truth.astype(np.float64))
            name = "output" if len(benchmarks) == 1 else f"output[{number}]"
            result, benchmark = sent[program.label(place)].reshape(handle.shape), array_of(benchmarks[number])
            outputs[number] = Output(name, result, truth, benchmark, rounding, place)
        sources = tuple(each.detach() for each in tensors_of((call.args, call.kwargs)))
        function, limit = computed.api.name.rpartition(".")[2], limit_of_program(program, served.product)
        return cls(function, sources, outputs, program, limit)

    def judge(self, output: Output) -> Finding:
        """Compares one result with the right one, by the largest tolerance of its steps.

        Wrong results of values that the product's precision cannot hold are noted: they are infinite there.
        """
        if output.is_exact:
            side = self.exact_side(output)
            return Finding(side.verdict, side.message, worst=side.worst)
        result, truth, tolerance = output.result, output.truth, self.limit.tolerance
        finding = comparison.against_benchmark(result, truth, output.benchmark, tolerance, output.rounding)
        if finding.verdict is Verdict.FAILED and (excess := self.limit.excess):
            return replace(finding, verdict=Verdict.NOTED, message=excess)
        return finding

    def exact_side(self, output: Output) -> Side:
        """Returns the finding about integers and truth values; indices may be those of equal elements."""
        found, right = as_tensor(output.result), as_tensor(output.truth)
        side = exact_side(found, right)
        is_wrong = side.verdict is Verdict.FAILED and not are_ties(self.function, self.sources[0], found, right)
        return side if is_wrong else Side(Verdict.PASSED)

    def sent(self, tolerance: Tolerance) -> JudgedProgram:
        """Returns the sent program with PyTorch's results in float64."""
        results, truths = {}, {}
        for each in self.outputs.values():
            step, output = each.returned
            label, shape = self.program.label(each.returned), self.program.steps[step].types[output].shape
            results[label], truths[label] = each.result.reshape(shape), each.truth.reshape(shape)
        returned = tuple(dict.fromkeys(each.returned for each in self.outputs.values()))
        return JudgedProgram(_with_values(self.program), returned, results, truths, BY_PYTORCH, tolerance)


def _translated(
    computed: Computed, recorder: Recorder, product: Product | None
) -> tuple[dict[int, Handle], tuple[Tensor, ...]]:
    """Adds the steps of a call, and returns the handles of its results and PyTorch's results, in the call's dtype.

    Raises LocalError if no operators compute any of the results.
    """
    call, dtypes, steps = computed.call, Dtypes({}, computed.first), Steps(recorder, product)
    if (row := WHOLE.get(computed.api.name)) is not None:
        arguments = mapped(lambda each: array_of(dtypes.tensor(each.detach())), (call.args, call.kwargs))
        made = row(steps, *arguments[0], **arguments[1])
        found: dict[int, Any] = dict(enumerate(made if isinstance(made, tuple) else [made]))
        outputs = computed.own.outputs
    else:
        translation = Translation(steps, tensors_of((call.args, call.kwargs)))
        outputs = run(computed.api, call, dtypes, within=lambda: translation).outputs
        found = {number: translation.made(each) for number, each in enumerate(outputs)}
    handles = {n: each for n, each in found.items() if isinstance(each, Handle) and _is_returned(recorder, each)}
    missing = [each for each in found.values() if isinstance(each, str)]
    if missing and not handles:
        raise LocalError(missing[0])
    return {n: each if _is_whole(recorder, each) else laid_out(steps, each) for n, each in handles.items()}, outputs


def _is_returned(recorder: Recorder, handle: Handle) -> bool:
    operator = OPERATORS[recorder.program.steps[handle.step].operator]
    return handle.output in [each.name for each in operator.returned]


def _is_whole(recorder: Recorder, handle: Handle) -> bool:
    """Returns whether a view has all elements in order."""
    if (view := handle.view) is None:
        return True
    shape, whole = handle.shape, recorder.program.steps[handle.step].types[handle.output]
    axes = zip(shape, view.strides_of(shape), row_major(shape), strict=True)
    is_row_major = all(size == 1 or stride == own for size, stride, own in axes)
    return view.offset == 0 and handle.size == whole.element_count and is_row_major


def _wide(tensor: Tensor) -> Array:
    """Returns floats in float64 and complex numbers in complex128; others unchanged."""
    array = array_of(tensor)
    return array if array.dtype.kind in "iub" else array.astype(np.complex128 if tensor.is_complex() else np.float64)


def as_tensor(array: Array) -> Tensor:
    """Returns a view of the array, or a copy if it is read-only."""
    return tensor_of(array if array.flags.writeable else array.copy())


def _moved(tensor: Tensor) -> Tensor:
    """Returns the tensor with each element moved up or down by half a unit in the last place of float32."""
    sign = torch.empty(tensor.shape).bernoulli_(generator=torch.Generator().manual_seed(0)) * 2 - 1
    return tensor * (1 + sign.to(tensor.dtype) * _HALF_ULP)


def _with_values(program: Program) -> Program:
    """Returns the program with zeros for shapes, which a bundle cannot hold with a dtype; nobody reads the elements."""
    steps = [
        replace(
            step,
            inputs=[
                replace(each, array=np.zeros(each.type.shape, each.type.dtype.numpy))
                if each.array is None and each.step is None
                else each
                for each in step.inputs
            ],
        )
        for step in program.steps
    ]
    return replace(program, steps=steps)
