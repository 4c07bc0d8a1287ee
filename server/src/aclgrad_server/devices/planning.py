"""From received bytes to the steps of programs, which pass the operator table's checks and this server's limits.

A step of the same form as an earlier one is not checked again; its values are, whenever it runs.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final

import aclgrad_native as native
from aclgrad.errors import AclgradError, LimitExceededError, MalformedRequestError, OperatorTurnedOffError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product
from aclgrad.sources import REPLY, SHAPE_ONLY, InMessage, Sink, Source
from aclgrad.tensors import TensorView
from aclgrad.wire.limits import MAX_REST_BYTES
from aclgrad.wire.messages import REQUEST_PAYLOADS, OperatorCall, parse_request
from aclgrad_server.devices.checks import check_output_memory
from aclgrad_server.devices.plan import Limits, PlannedOutput, StepPlan, Workspace, plan_call
from aclgrad_server.devices.turned_off import TurnedOff

_MAX_STEPS: Final = 1024
_MAX_PLANS: Final = 1024
_MAX_WORKSPACES: Final = 8192
_MAX_KEPT_BYTES: Final = 4096
"""Requests of more bytes, payloads not counted, have names or lists that nobody sends twice."""


@dataclass(frozen=True)
class PlannedStep:
    """A step of a program: its plan, where its inputs come from and where its wanted outputs go."""

    plan: StepPlan
    sources: tuple[Source | None, ...]  # None for an input that was left out
    sinks: tuple[Sink, ...]

    @cached_property
    def beside(self) -> list[tuple[int, Source]]:
        """The inputs that come beside the message, by position."""
        return [(i, each) for i, each in enumerate(self.sources) if each is not None and each.is_beside]

    @cached_property
    def is_beside(self) -> bool:
        """Whether a tensor comes or goes beside the messages of request and reply."""
        return bool(self.beside) or not all(each.in_reply for each in self.sinks)

    @cached_property
    def is_shared(self) -> bool:
        """Whether it names shared memory."""
        return any(each is not None and each.shared is not None for each in (*self.sources, *self.sinks))

    @cached_property
    def waits_for_client(self) -> bool:
        """Whether its client decides how long its tensors take to come or to go."""
        return any(each is not None and each.in_chunks for each in (*self.sources, *self.sinks))

    @cached_property
    def arriving_bytes(self) -> int:
        """What the device has of inputs before the step runs: those that the client sends."""
        pairs = zip(self.plan.input_bytes, self.sources, strict=True)
        return sum(size_bytes for size_bytes, source in pairs if source is not None and source.has_values)

    @cached_property
    def replied(self) -> list[PlannedOutput]:
        """The outputs in the reply."""
        return [each for each, sink in zip(self.plan.outputs, self.sinks, strict=True) if sink.in_reply]

    @cached_property
    def replied_bytes(self) -> int:
        """What is left of the step when it has run: its outputs in the reply."""
        return sum(each.type.size_bytes for each in self.replied)

    @cached_property
    def message_bytes(self) -> int:
        """The size of an ExecuteOperatorResponse, but for what it says of outputs in shared memory."""
        return self.replied_bytes + sum(len(each.reply_prefix) for each in self.replied)

    @cached_property
    def checked_bytes(self) -> int:
        """What the process has of inputs that come beside the message and whose values are checked."""
        return sum(source.nbytes for index, source in self.beside if self.plan.rules[index] is not None)


def planned_step(call: OperatorCall, plan: StepPlan, other_sinks: Sink = REPLY) -> PlannedStep:
    """Returns the step; raises InvalidFieldError for shared memory that does not fit its outputs."""
    check_output_memory(call, {each.name: each.type for each in plan.outputs})
    sources = {each.name: each.source for each in call.inputs}
    return PlannedStep(
        plan,
        tuple(sources.get(each.name) for each in plan.spec.inputs),
        tuple(call.output_memory.get(each.name, other_sinks) for each in plan.outputs),
    )


@dataclass(frozen=True, slots=True)
class _Form:
    """What steps of one plan share. Values are compared as texts: 1, 1.0 and True are not the same."""

    operator: str
    inputs: tuple[TensorView, ...]
    attributes: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    call: OperatorCall = field(compare=False)


def _form_of(call: OperatorCall) -> _Form | None:
    """Returns the form of a call, which has nothing of its bytes; None if an input has more or fewer than it takes."""

    def is_of_another_size(tensor: TensorView) -> bool:
        source = tensor.source
        return tensor.view is None and source.has_values and source.nbytes != tensor.type.size_bytes

    if any(map(is_of_another_size, call.inputs)):
        return None
    inputs = tuple(
        replace(each, source=InMessage(each.source.nbytes) if each.source.has_values else SHAPE_ONLY)
        for each in call.inputs
    )
    attributes = tuple(sorted((name, repr(value)) for name, value in call.attributes.items()))
    bare = OperatorCall(call.operator, inputs, call.attributes, outputs=call.outputs)
    return _Form(call.operator, inputs, attributes, call.outputs, bare)


class Planner:
    """Reads steps for one product; `turned_off` has what is refused although the product has it."""

    def __init__(self, product: Product, limits: Limits, turned_off: TurnedOff | None = None) -> None:
        self._turned_off = turned_off or TurnedOff(product)
        self.limits = limits
        self._product = product
        self._kept_step = lru_cache(_MAX_STEPS)(self._step_of_rest)
        self._kept_plan = lru_cache(_MAX_PLANS)(lambda form: self._new_plan(form.call))
        # Also for plans that are not kept.
        self._workspace_of = lru_cache(_MAX_WORKSPACES)(lambda key: Workspace())

    def read(self, request: bytes | memoryview) -> tuple[PlannedStep, list[memoryview]]:
        """Returns the step of an ExecuteOperatorRequest, and its payloads; raises a RequestError."""
        rest, payloads = extract_payloads(request, REQUEST_PAYLOADS)
        step = self._kept_step if len(rest) <= _MAX_KEPT_BYTES else self._step_of_rest
        return step(rest, tuple(map(len, payloads))), payloads

    def step(self, call: OperatorCall, other_sinks: Sink = REPLY) -> PlannedStep:
        """Returns the step of a call; raises a RequestError, which has the operator if there is one of that name.

        The call's `output_memory` has the sinks of some outputs, and the others go to `other_sinks`.
        """
        try:
            form = _form_of(call)
            plan = self._new_plan(call) if form is None else self._kept_plan(form)
            return planned_step(call, plan, other_sinks)
        except AclgradError as error:
            if call.operator in OPERATORS:
                error.operator = call.operator
            raise

    def _new_plan(self, call: OperatorCall) -> StepPlan:
        if why := self._turned_off.reason_for(call):
            dtypes = " or ".join(self._turned_off.served_dtypes(OPERATORS[call.operator]))
            raise OperatorTurnedOffError(
                f"operator {call.operator} is turned off because it failed the server's self-test: {why}",
                field="operator",
                remedy=f"use another server{dtypes and f', or {dtypes}'}; the log of this one says more",
                metadata={"operator": call.operator, "why": why},
            )
        plan = plan_call(call, self._product, self.limits)
        return replace(plan, workspace=self._workspace_of(plan.native.key))

    def _step_of_rest(self, rest: bytes, lengths: tuple[int, ...]) -> PlannedStep:
        """Returns a step that knows its payloads by their numbers alone: it depends only on their lengths."""
        return self.step(parse_request(rest, [InMessage(length, index) for index, length in enumerate(lengths)]))


def extract_payloads(message: bytes | memoryview, path: tuple[int, ...]) -> tuple[bytes, list[memoryview]]:
    """A faster `aclgrad.wire.scan`; raises LimitExceededError for more than MAX_REST_BYTES of rest."""
    try:
        return native.extract_payloads(message, path, MAX_REST_BYTES)
    except native.RestTooLargeError:
        problem = f"has more than {MAX_REST_BYTES} bytes besides the data of its tensors"
        raise LimitExceededError.at("message", problem, "send tensors in Tensor.data, and no unknown fields") from None
    except native.MalformedMessageError as error:
        raise MalformedRequestError(str(error)) from None


def check_reply_size(field: str, size_bytes: int, limit_bytes: int) -> None:
    """Raises LimitExceededError for a reply that exceeds the limit of a message, before the reply is computed."""
    if size_bytes > limit_bytes:
        problem = f"makes a reply of {size_bytes} bytes and the limit of a message is {limit_bytes}"
        remedy = (
            "send a large call in chunks (ExecuteOperatorChunked) and fewer calls in one batch, "
            "or raise --max-message-bytes (ACLGRAD_MAX_MESSAGE_BYTES) of the server"
        )
        metadata = {"size": str(size_bytes), "max_message_bytes": str(limit_bytes)}
        raise LimitExceededError.at(field, problem, remedy, metadata)


def check_size(size_bytes: int, limit: int, workspace_bytes: int = 0) -> None:
    """Raises LimitExceededError for a call that no device's pool can hold."""
    if size_bytes > limit:
        part = f", {workspace_bytes} of them as the operator's workspace," if workspace_bytes else ""
        problem = f"takes {size_bytes} bytes{part} and the memory pool of a device holds {limit} at most"
        remedy = "send smaller tensors or fewer calls, or raise --pool-bytes and --memory-limit-bytes of the server"
        metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
        raise LimitExceededError.at("call", problem, remedy, metadata)
