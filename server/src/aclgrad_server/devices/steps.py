"""Programs and their steps: plans, sources of inputs, and sinks of outputs."""

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aclgrad.errors import AclgradError, InputFailedError
from aclgrad.sources import NOWHERE, REPLY, Sink, Source
from aclgrad.tensors import TensorView
from aclgrad.wire.messages import OperatorCall, response_of
from aclgrad.wire.programs import result_prefix
from aclgrad_server.devices.checks import check_output_memory
from aclgrad_server.devices.plan import PlannedOutput, StepPlan


@dataclass(frozen=True)
class PlannedStep:
    """A step of a program: its plan, the sources of its inputs and the sinks of its wanted outputs."""

    plan: StepPlan
    sources: tuple[Source | None, ...]  # None for an input that was left out
    sinks: tuple[Sink, ...]

    @cached_property
    def result_bytes(self) -> int:
        """The size of its result in an ExecuteProgramResponse."""
        return len(result_prefix(self.message_bytes)) + self.message_bytes

    @cached_property
    def alone(self) -> "PlannedProgram":
        """The program with only this step."""
        return PlannedProgram(1, {0: self}, {})

    @cached_property
    def unseen(self) -> list[int]:
        """The inputs with a rule whose values earlier steps make, so that the host does not see them."""
        pairs = enumerate(zip(self.sources, self.plan.rules, self.plan.types, strict=True))
        return [
            index
            for index, (source, rule, type) in pairs
            if source is not None and source.step is not None and rule is not None and type and type.element_count
        ]

    @cached_property
    def beside(self) -> list[tuple[int, Source]]:
        """The inputs outside the message, by position."""
        return [(i, each) for i, each in enumerate(self.sources) if each is not None and each.is_beside]

    @cached_property
    def is_beside(self) -> bool:
        """Whether a tensor is transferred outside the messages of request and reply."""
        return bool(self.beside) or not all(each.in_reply for each in self.sinks)

    @cached_property
    def is_shared(self) -> bool:
        """Whether it names shared memory."""
        return any(each is not None and each.shared is not None for each in (*self.sources, *self.sinks))

    @cached_property
    def replied(self) -> list[PlannedOutput]:
        """The outputs in the reply."""
        return [each for each, sink in zip(self.plan.outputs, self.sinks, strict=True) if sink.in_reply]

    @cached_property
    def replied_bytes(self) -> int:
        """Its summary after the run: its outputs in the reply."""
        return sum(each.type.size_bytes for each in self.replied)

    @cached_property
    def described(self) -> dict[int, bytes]:
        """The reply's header of each output in shared memory, by position among the wanted outputs."""
        pairs = enumerate(zip(self.plan.outputs, self.sinks, strict=True))
        return {
            index: response_of(TensorView(each.name, each.type, sink.shared))
            for index, (each, sink) in pairs
            if sink.shared is not None
        }

    @cached_property
    def section_bytes(self) -> int:
        """The bytes that the device writes into a reply."""
        return self.replied_bytes + sum(len(each.reply_prefix) for each in self.replied)

    @cached_property
    def message_bytes(self) -> int:
        """The size of an ExecuteOperatorResponse."""
        return self.section_bytes + sum(map(len, self.described.values()))


def planned_step(
    call: OperatorCall, plan: StepPlan, reply: Sink = REPLY, returned: Container[str] | None = None
) -> PlannedStep:
    """Returns the step; raises InvalidFieldError for shared memory that does not fit its outputs.

    Outputs without shared memory go to `reply`, or only the `returned` ones if given. Other outputs, and those in a
    device-specific form, go nowhere.
    """
    ours = [each.name for each in plan.spec.returned]
    check_output_memory(call, {each.name: each.type for each in plan.outputs if each.name in ours})
    sources = {each.name: each.source for each in call.inputs}
    to_reply = ours if returned is None else [name for name in ours if name in returned]
    sinks = {each.name: reply if each.name in to_reply else NOWHERE for each in plan.outputs}
    return PlannedStep(
        plan,
        tuple(sources.get(each.name) for each in plan.inputs),
        tuple(call.output_memory.get(name, sink) for name, sink in sinks.items()),
    )


@dataclass
class PlannedProgram:
    """A program with planned legal steps, shared by all programs with the same bytes beside their tensors."""

    step_count: int
    steps: dict[int, PlannedStep]
    failures: dict[int, AclgradError]
    """The errors of the other steps."""
    table: tuple[TensorView, ...] = ()
    chunk_bytes: int = 0
    """The size of the chunks of the answer; 0 for an answer in one message."""
    reply_bytes: int = 0
    """The size of its ExecuteProgramResponse if no more steps fail."""
    first_uses: dict[int, int] = field(default_factory=dict)
    """The first step that uses each tensor of the table."""
    schedule: Any = None
    """Its schedule, kept here by its runner."""

    def without(self, failures: dict[int, AclgradError]) -> "PlannedProgram":
        """Returns the program without these failed steps and those that need them."""
        found = self.failures | failures
        steps: dict[int, PlannedStep] = {}
        for number, step in self.steps.items():
            needed = [each.step for each in step.sources if each is not None and each.step in found]
            if number not in found and needed:
                found[number] = input_failed(min(first_failure(each, found[each]) for each in needed))
            if number not in found:
                steps[number] = step
        reply_bytes = sum(each.result_bytes for each in steps.values())
        return PlannedProgram(self.step_count, steps, found, self.table, self.chunk_bytes, reply_bytes, self.first_uses)

    @cached_property
    def operators(self) -> Counter[str]:
        """How many legal steps each operator has."""
        return Counter(step.plan.spec.name for step in self.steps.values())

    @cached_property
    def is_shared(self) -> bool:
        """Whether it names shared memory."""
        entries = any(each.source.shared is not None for each in self.table)
        return entries or any(step.is_shared for step in self.steps.values())

    @cached_property
    def seconds(self) -> float:
        """Its estimated time."""
        return sum(step.plan.seconds for step in self.steps.values())


def input_failed(step: int) -> InputFailedError:
    """Returns the error of a step that depends on this one."""
    problem, remedy = f"step {step} failed, whose output this one needs", "see the status of that step"
    return InputFailedError(problem, remedy=remedy, metadata={"step": str(step)})


def first_failure(step: int, error: Exception) -> int:
    """Returns the step whose failure caused this error."""
    return int(error.metadata["step"]) if isinstance(error, InputFailedError) else step
