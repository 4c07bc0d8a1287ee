"""From received bytes to planned steps, checked against the operator table and this server's limits.

A form is checked once; the values of a step are checked whenever it runs.
"""

from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import aclgrad_native as native
from aclgrad.errors import (
    AclgradError,
    LimitExceededError,
    MalformedRequestError,
    OperatorTurnedOffError,
)
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import call_alone
from aclgrad.products import Product
from aclgrad.sources import REPLY, SHAPE_ONLY, InMessage, Sink
from aclgrad.tensors import TensorView
from aclgrad.wire.limits import MAX_REST_BYTES
from aclgrad.wire.messages import REQUEST_PAYLOADS, OperatorCall, parse_request
from aclgrad_server.devices.plan import Limits, StepPlan, Workspace, plan_call
from aclgrad_server.devices.references import check_references
from aclgrad_server.devices.steps import PlannedStep, planned_step
from aclgrad_server.devices.turned_off import TurnedOff

_MAX_STEPS: Final = 1024
_MAX_PLANS: Final = 1024
_MAX_WORKSPACES: Final = 8192
_MAX_KEPT_BYTES: Final = 4096
"""Larger requests, payloads not counted, are not cached: nobody sends such names or lists twice."""


@dataclass(frozen=True, slots=True)
class _Form:
    """The key of a plan. Values are compared as texts: 1, 1.0 and True differ."""

    operator: str
    inputs: tuple[TensorView, ...]
    attributes: tuple[tuple[str, str], ...]
    outputs: tuple[str, ...]
    call: OperatorCall = field(compare=False)


def _form_of(call: OperatorCall) -> _Form | None:
    """Returns the form of a call, which has none of its bytes; None if an input has the wrong number of bytes."""

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
    """Reads steps for one product; `turned_off` has the refused operators of the product."""

    def __init__(self, product: Product, limits: Limits, turned_off: TurnedOff | None = None) -> None:
        self._turned_off = turned_off or TurnedOff(product)
        self.limits = limits
        self.product = product
        self._kept_step = lru_cache(_MAX_STEPS)(self._step_of_rest)
        self._kept_plan = lru_cache(_MAX_PLANS)(lambda form: self._new_plan(form.call))
        # Also for plans that are not cached.
        self._workspace_of = lru_cache(_MAX_WORKSPACES)(lambda key: Workspace())

    def read(self, request: bytes | memoryview) -> tuple[PlannedStep, list[memoryview]]:
        """Returns the step of an ExecuteOperatorRequest, and its payloads; raises a RequestError."""
        rest, payloads = extract_payloads(request, REQUEST_PAYLOADS)
        step = self._kept_step if len(rest) <= _MAX_KEPT_BYTES else self._step_of_rest
        return step(rest, tuple(map(len, payloads))), payloads

    def step(self, call: OperatorCall, reply: Sink = REPLY, returned: Container[str] | None = None) -> PlannedStep:
        """Returns the step of a call; raises a RequestError, with the operator if it exists.

        The call's `output_memory` has the sinks of some outputs; see `planned_step` for the others.
        """
        try:
            form = _form_of(call)
            plan = self._new_plan(call) if form is None else self._kept_plan(form)
            return planned_step(call, plan, reply, returned)
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
        plan = plan_call(call, self.product, self.limits)
        return replace(plan, workspace=self._workspace_of(plan.native.key))

    def _step_of_rest(self, rest: bytes, lengths: tuple[int, ...]) -> PlannedStep:
        """Returns a step that refers to payloads by number and depends only on their lengths."""
        call = parse_request(rest, [InMessage(length, index) for index, length in enumerate(lengths)])
        check_references(0, call, {}, {}, ())
        return self.step(call_alone(call))


def extract_payloads(
    message: bytes | memoryview, *paths: tuple[int, ...], max_rest_bytes: int = MAX_REST_BYTES
) -> tuple[bytes, list[memoryview]]:
    """A faster `aclgrad.wire.scan`; raises LimitExceededError if the rest is larger than this."""
    try:
        return native.extract_payloads(message, paths, max_rest_bytes)
    except native.RestTooLargeError:
        problem = f"has more than {max_rest_bytes} bytes besides the data of its tensors"
        raise LimitExceededError.at("message", problem, "send tensors in Tensor.data, and no unknown fields") from None
    except native.MalformedMessageError as error:
        raise MalformedRequestError(str(error)) from None


def check_reply_size(field: str, size_bytes: int, limit_bytes: int) -> None:
    """Raises LimitExceededError for a reply that exceeds the limit of a message, before the reply is computed."""
    if size_bytes > limit_bytes:
        problem = f"makes a reply of {size_bytes} bytes and the limit of a message is {limit_bytes}"
        remedy = (
            "send large tensors in chunks (ExecuteProgramChunked), or fewer steps in one program, "
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
