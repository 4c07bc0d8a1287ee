"""Finds the first operator of a training step that a server computes wrongly: `compare_step`."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor, fx, nn

from aclgrad._client.sync.client import Client
from aclgrad.bridges.served_operators import forget, served_by
from aclgrad.errors import InputFailedError, InvalidFieldError, LimitExceededError, OtherProductError
from aclgrad.judge.findings.rows import Finding, Origin, Task, Verdict
from aclgrad.judge.steps.judging import judge_step
from aclgrad.judge.steps.ranges import OF_STEPS, Range, is_of_memory, ranges_of, why_too_large
from aclgrad.judge.steps.recorded import Needed, Output
from aclgrad.judge.steps.report import ComparedStep, StepRow
from aclgrad.products import Product
from aclgrad.torch.step.called import Batch, LossFunction
from aclgrad.torch.step.computing import as_traced, computed
from aclgrad.torch.step.places import Place, place_of
from aclgrad.torch.step.plan import Part, Plan
from aclgrad.torch.step.remote_step import RemoteStep, remote_step
from aclgrad.torch.step.running import given, sent
from aclgrad.torch.step.verifying import drawing_again

MOST_BYTES: Final = 2**30
"""Default limit of the values returned at once."""


def compare_step(
    model: nn.Module,
    loss_function: LossFunction,
    client: Client,
    *batch: Any,
    gradient: Tensor | None = None,
    whole: bool = False,
    most_bytes: int = MOST_BYTES,
    **options: Any,
) -> ComparedStep:
    """Runs a training step as `remote_step` does, and judges each operator on its own recorded inputs.

    print(aclgrad.torch.compare_step(model, loss_function, client, images, labels))

    Every value between two operators comes back, forward and backward. A step is wrong if its output differs from the
    operator's definition in float64, on the inputs that the server itself had, by more than the operator may on the
    server's product. So the first wrong step is the one that computes wrongly, and later steps are not blamed for it.

    `gradient` is that of the loss, `options` are named arguments of the loss function. If all values take more than
    `most_bytes`, or than the server allows for one call, they come back in ranges of steps. Without `whole`, ranges
    behind the first one with a wrong step are not compared. Gradients, buffers and the state of PyTorch's generator
    stay as they are. Raises what a call of `remote_step` does, and InvalidFieldError for a product that is not known.
    """
    step = remote_step(model, loss_function, client, verify_every=0)
    if not isinstance(most_bytes, int) or most_bytes < 1:
        raise InvalidFieldError.at("most_bytes", f"is {most_bytes!r}", "give a number of bytes, such as 2**30")
    arguments = Batch(batch, options)
    with drawing_again(torch.get_rng_state()):
        try:
            return _compared(step, client, arguments, gradient, whole=whole, most_bytes=most_bytes)
        except OtherProductError:
            # As in `remote_step`: another card answers now.
            forget(client)
            return _compared(step, client, arguments, gradient, whole=whole, most_bytes=most_bytes)


def _compared(
    step: RemoteStep, client: Client, batch: Batch, gradient: Tensor | None, *, whole: bool, most_bytes: int
) -> ComparedStep:
    plan, inputs = step.prepared(batch, gradient)
    product = served_by(client).product
    if product is None:
        raise InvalidFieldError.at("product", "of the server is not known here", "upgrade aclgrad")
    origin = Origin.of(str(client.target), client.server_status())
    return _Comparison(plan, origin, product, is_whole=whole, most_bytes=most_bytes).of(inputs)


class _Comparison:
    """Judges the programs of a plan in order."""

    def __init__(self, plan: Plan, origin: Origin, product: Product, *, is_whole: bool, most_bytes: int) -> None:
        self._plan, self._product, self._is_whole, self._most_bytes = plan, product, is_whole, most_bytes
        self._parts = [(each, Needed(each.program, list(each.wanted.values()))) for each in plan.parts if each.wanted]
        count = sum(len(needed.numbers) for _, needed in self._parts)
        self._found = ComparedStep(origin, count, sum(len(each.local) for each in plan.parts), len(plan.locals))
        self._places = {str(place_of(node)): place_of(node) for node in plan.trace.graph.graph.nodes}
        self._ordinals: dict[tuple[int, int], int] = {}
        """The number of each step among all, by part and number there."""
        for at, (_, needed) in enumerate(self._parts):
            for number in needed.numbers:
                self._ordinals[at, number] = len(self._ordinals) + 1

    def of(self, inputs: Sequence[Tensor]) -> ComparedStep:
        """Returns the report for these inputs of the trace."""
        found = self._found
        values: dict[fx.Node, Any] = {**dict(zip(self._plan.trace.inputs, inputs, strict=True)), **self._plan.constants}
        parts = iter(self._plan.parts)
        for at, (part, needed) in enumerate(self._parts):
            with as_traced():
                for node in self._local(parts, part):
                    values[node] = computed(node, values)
            for each in ranges_of(needed, given(part, values), self._most_bytes):
                self._take(at, needed, each)
                if found.failed and not self._is_whole and found.rows[-1].step < found.step_count:
                    found.ended = "give whole=True to compare them too"
                    return found
            if at + 1 < len(self._parts):
                try:
                    values.update(sent(part, values))
                except LimitExceededError as error:
                    if not is_of_memory(error):
                        raise
                    found.ended = f"the program before them cannot run: {why_too_large(error)}"
                    return found
        return found

    def _local(self, parts: Iterator[Part], end: Part) -> Iterator[fx.Node]:
        """Yields the local nodes up to a part's program."""
        for part in parts:
            yield from part.local
            if part is end:
                return

    def _take(self, at: int, needed: Needed, range: Range) -> None:
        """Adds a row for each output of the steps of a range."""
        self._found.run_count += range.recorded is not None
        for number in range.numbers:
            begin = time.monotonic()
            findings = self._findings(needed, number, range)
            for name in needed.outputs_of(number):
                finding = self._hedged(at, needed, number, findings.get(name, _INSIDE))
                self._found.rows.append(self._row(at, needed, (number, name), finding, time.monotonic() - begin))

    def _findings(self, needed: Needed, number: int, range: Range) -> dict[str, Finding]:
        """Returns the findings about the outputs of a step, without those that stay on the device."""
        names, recorded = needed.outputs_of(number), range.recorded
        if recorded is None:
            return dict.fromkeys(names, Finding(Verdict.SKIPPED, range.reason))
        try:
            results = recorded.results_of(number)
            inputs = recorded.inputs_of(number)
        except InputFailedError:
            return dict.fromkeys(names, Finding(Verdict.SKIPPED, "a step that it needs has failed"))
        except OF_STEPS as error:
            # Errors count the steps of one program, from 0.
            message = error.message.removeprefix(f"step {number} ({needed.steps[number].label}): ")
            return dict.fromkeys(names, Finding(Verdict.FAILED, f"it fails: {message}"))
        return judge_step(needed.steps[number], inputs, results, self._product)

    def _hedged(self, at: int, needed: Needed, number: int, finding: Finding) -> Finding:
        """Returns the finding about a wrong output, with a note if its step read a value that stayed on the device.

        That value may be wrong instead; if its step is known to be wrong, the output is not judged.
        """
        made = {step: name for step, name in needed.inside_of(number)}
        if finding.verdict is not Verdict.FAILED or not made:
            return finding
        failed = {row.step for row in self._found.failed}
        for step, name in made.items():
            ordinal = self._ordinals[at, step]
            if ordinal in failed:
                reason = (
                    f"it differs, and so may {name} of step {ordinal}, which stays on the device: that step is wrong"
                )
                return Finding(Verdict.SKIPPED, reason)
        about = " and ".join(f"{name} of step {self._ordinals[at, step]}" for step, name in made.items())
        return replace(finding, message=f"{finding.message}; {about} stays on the device, and may be wrong instead")

    def _row(self, at: int, needed: Needed, output: Output, finding: Finding, seconds: float) -> StepRow:
        number, name = output
        step, type = needed.steps[number], needed.type_of(output)
        place = self._places.get(step.place, Place("", step.place))
        task = Task(
            self._found.origin, "compare_step", step.operator, type.dtype.name, type.shape, str(place), lambda: finding
        )
        return replace(StepRow.of(task, finding, seconds), step=self._ordinals[at, number], output=name, place=place)


_INSIDE: Final = Finding(Verdict.SKIPPED, "it stays on the device; what reads it is judged with the definition's")
