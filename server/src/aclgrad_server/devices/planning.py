"""From received bytes to plans: calls that pass the operator table's checks and this server's limits.

A call of the same form as an earlier one is not parsed and checked again.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import aclgrad_native as native
from aclgrad.errors import (
    AclgradError,
    LimitExceededError,
    MalformedRequestError,
    OperatorTurnedOffError,
)
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec, OutputSpec
from aclgrad.operators.validation import check_call, find_operator, overflows
from aclgrad.operators.values import BoxRule, ValueRule
from aclgrad.products import Product
from aclgrad.tensors import Announced, SharedRange, TensorType, TensorView
from aclgrad.wire.limits import MAX_REST_BYTES
from aclgrad.wire.messages import REQUEST_PAYLOADS, AttributeValue, OperatorCall, parse_request, response_prefix
from aclgrad_server.devices.checks import (
    ValueCheck,
    check_of,
    check_presence,
    check_tensor_size,
    check_work,
    output_memory,
)
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.limits import MAX_ROI_WORK, SMALL_BYTES, SMALL_S, WORK_PER_S

Source = type[Announced] | type[SharedRange]
"""The source of bytes that are not in the message: chunks, or shared memory."""
_NOTHING: Final[Mapping[str, Any]] = {}
_WORK_OF_AN_ELEMENT: Final = 16  # additions for each element that any operator may need
_CALL_WORK: Final = 1500.0  # what a call takes besides its additions: some ten microseconds
_MAX_PLANS: Final = 1024
_MAX_WORKSPACES: Final = 8192
_MAX_KEPT_BYTES: Final = 4096
"""Requests of more bytes, payloads not counted, have names or lists that nobody sends twice."""


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """One output of a call that is known to be legal."""

    name: str
    type: TensorType
    memory: SharedRange | None  # where it is to go, unless into the response
    reply_prefix: bytes  # what stands before its data in an ExecuteOperatorResponse


@dataclass(slots=True)
class Workspace:
    """The largest workspace that the device library has asked for calls of one form."""

    size_bytes: int = 0


@dataclass(frozen=True)
class OperatorPlan:
    """A call that is known to be legal, with inputs, attributes and outputs in aclnn order."""

    spec: OperatorSpec
    inputs: tuple[TensorView | None, ...]  # None for one that was left out
    rules: tuple[ValueRule | None, ...]
    attributes: tuple[AttributeValue, ...]
    outputs: tuple[PlannedOutput, ...]  # those that are wanted
    output_bytes: int  # of these
    size_bytes: int  # what the tensors take on the device
    is_empty: bool  # whether an input has no elements: operators leave the outputs untouched then
    uses_shared_memory: bool
    work: float  # about how many additions it takes
    encoded_bytes: int  # of inputs that the process has in the form that the device reads, besides the device
    native: native.CallPlan  # the plan in the form that the device takes
    workspace: Workspace = field(default_factory=Workspace, compare=False)

    def contents(self, payloads: Sequence[memoryview], staged: Mapping[str, Any] = _NOTHING) -> list[Any]:
        """Returns the bytes of each input: a staged tensor, a part of the call's message, or None."""
        return [None if each is None else _content(each, payloads, staged) for each in self.inputs]

    def inputs_in(self, source: Source) -> list[tuple[TensorView, bool]]:
        """Returns the inputs from this source, and whether the values of each are checked."""
        pairs = zip(self.inputs, self.rules, strict=True)
        return [
            (tensor, rule is not None)
            for tensor, rule in pairs
            if tensor is not None and isinstance(tensor.data, source)
        ]

    def checked_bytes(self, source: Source) -> int:
        """Returns the bytes of inputs that the host has, besides the device: those to check, and encoded ones."""
        checked = sum(tensor.type.size_bytes for tensor, is_checked in self.inputs_in(source) if is_checked)
        return checked + self.encoded_bytes

    @cached_property
    def is_small(self) -> bool:
        """Whether small calls may wait for it; its workspace does not count."""
        return is_small(self.size_bytes + self.encoded_bytes, self.work)

    @cached_property
    def reply_bytes(self) -> int:
        """The size of the ExecuteOperatorResponse."""
        return sum(len(each.reply_prefix) for each in self.outputs) + self.output_bytes


def is_small(size_bytes: int, work: float) -> bool:
    """Says whether calls take so little that others hardly notice: memory, and less than a millisecond."""
    return size_bytes <= SMALL_BYTES and work <= WORK_PER_S * SMALL_S


def _content(tensor: TensorView, payloads: Sequence[memoryview], staged: Mapping[str, Any]) -> Any:
    if tensor.name in staged:
        return staged[tensor.name]
    if isinstance(tensor.data, Announced):
        return payloads[tensor.data.index]
    return tensor.data if isinstance(tensor.data, memoryview) else None


class Planner:
    """Reads requests for one product; `turned_off` has what is refused although the product has it."""

    def __init__(
        self,
        product: Product,
        max_tensor_bytes: int,
        shape_only: bool | None = None,
        turned_off: TurnedOff | None = None,
        max_work: float = math.inf,
        host_pointers: bool = False,
    ) -> None:
        self._turned_off = turned_off or TurnedOff(product)
        self._rules = product, max_tensor_bytes, shape_only, max_work, host_pointers
        self._kept_plan_of_form = lru_cache(_MAX_PLANS)(self._plan_of_form)
        # Also for plans that are not kept, such as those of calls in chunks.
        self._workspace_of = lru_cache(_MAX_WORKSPACES)(lambda key: Workspace())

    def read(self, request: bytes | memoryview) -> tuple[OperatorPlan, list[memoryview]]:
        """Returns the plan of an ExecuteOperatorRequest, and its payloads; raises a RequestError."""
        rest, payloads = extract_payloads(request, REQUEST_PAYLOADS)
        plan_of_form = self._kept_plan_of_form if len(rest) <= _MAX_KEPT_BYTES else self._plan_of_form
        return plan_of_form(rest, tuple(map(len, payloads))), payloads

    def plan(self, call: OperatorCall) -> OperatorPlan:
        """Returns the plan of a call; raises a RequestError, which has the operator if there is one of that name."""
        try:
            if why := self._turned_off.reason_for(call):
                dtypes = " or ".join(self._turned_off.served_dtypes(OPERATORS[call.operator]))
                raise OperatorTurnedOffError(
                    f"operator {call.operator} is turned off because it failed the server's self-test: {why}",
                    field="operator",
                    remedy=f"use another server{dtypes and f', or {dtypes}'}; the log of this one says more",
                    metadata={"operator": call.operator, "why": why},
                )
            plan = plan_call(call, *self._rules)
            return replace(plan, workspace=self._workspace_of(plan.native.key))
        except AclgradError as error:
            if call.operator in OPERATORS:
                error.operator = call.operator
            raise

    def _plan_of_form(self, rest: bytes, lengths: tuple[int, ...]) -> OperatorPlan:
        """Returns a plan whose payloads are announced: it depends only on their lengths."""
        return self.plan(parse_request(rest, [Announced(index, length) for index, length in enumerate(lengths)]))


def extract_payloads(message: bytes | memoryview, path: tuple[int, ...]) -> tuple[bytes, list[memoryview]]:
    """A faster `aclgrad.wire.scan`; raises LimitExceededError for more than MAX_REST_BYTES of rest."""
    try:
        return native.extract_payloads(message, path, MAX_REST_BYTES)
    except native.RestTooLargeError:
        problem = f"has more than {MAX_REST_BYTES} bytes besides the data of its tensors"
        raise LimitExceededError.at("message", problem, "send tensors in Tensor.data, and no unknown fields") from None
    except native.MalformedMessageError as error:
        raise MalformedRequestError(str(error)) from None


def plan_call(
    call: OperatorCall,
    product: Product,
    max_tensor_bytes: int,
    shape_only: bool | None = None,
    max_work: float = math.inf,
    host_pointers: bool = False,
) -> OperatorPlan:
    """Returns the plan of a call, or raises a RequestError; `shape_only` is that of `InputSpec.takes_shape`.

    A device that takes host pointers reads encoded inputs where they are.

    Work in proportion to the tensors is never too much; `max_work` bounds additions beyond that, and those of
    boxes, whose values are checked when the call runs.
    """
    spec = find_operator(call.operator, product)
    arguments = check_call(call, spec, product)
    given = {tensor.name: tensor for tensor in call.inputs}
    inputs = tuple(given.get(each.name) for each in spec.inputs)
    rules = tuple(each.values(arguments, product) if each.name in given else None for each in spec.inputs)
    size_bytes = encoded_bytes = 0
    native_inputs: list[tuple[tuple[int, ...], int, bool, ValueCheck | None] | None] = []
    for tensor, rule in zip(inputs, rules, strict=True):
        if tensor is None:
            native_inputs.append(None)
            continue
        check_tensor_size(f"inputs[{tensor.name}].shape", tensor.type, max_tensor_bytes)
        on_device = tensor.type if rule is None else rule.device_type(tensor.type)
        check_tensor_size(f"inputs[{tensor.name}] on the device", on_device, max_tensor_bytes)
        size_bytes += on_device.size_bytes
        check, is_prefix = check_of(rule, tensor.type, round(min(max_work, MAX_ROI_WORK)))
        if check is not None and (part := check.encoded_bytes(tensor.type.size_bytes)):
            encoded_bytes += 0 if host_pointers and part == on_device.size_bytes else part
        native_inputs.append((on_device.shape, on_device.dtype.acl, is_prefix, check))
    types = {each.name: each.infer(arguments) for each in spec.outputs}
    for name, type in types.items():
        if overflows(type):
            problem = f"would be {type}, whose size overflows 64 bits"
            raise LimitExceededError.at(f"outputs[{name}]", problem, "ask for smaller sizes")
        check_tensor_size(f"outputs[{name}]", type, max_tensor_bytes)
    for each, tensor in zip(spec.inputs, inputs, strict=True):
        if tensor is not None:
            check_presence(each, tensor, arguments, product, shape_only)
    wanted = {name: type for name, type in types.items() if not call.outputs or name in call.outputs}
    memory = output_memory(call, wanted)
    outputs = {
        name: PlannedOutput(name, type, memory.get(name), response_prefix(name, type)) for name, type in wanted.items()
    }
    uses = {each.name: _use_of(each, outputs) for each in spec.outputs}
    written = [0 if uses[name] == native.OutputUse.NULL else type.size_bytes for name, type in types.items()]
    untouched: dict[int, int] = {}
    for index, (each, tensor) in enumerate(zip(spec.inputs, inputs, strict=True)):
        if tensor is None or tensor.data is not None or not each.is_unread(arguments, product):
            continue
        # Gets the memory of an output of its size: behind a smaller input there would be a part of the output.
        if 0 < tensor.type.size_bytes in written:
            untouched[index] = written.index(tensor.type.size_bytes)
            size_bytes -= tensor.type.size_bytes
    work = spec.work(arguments)
    # The work of boxes depends on their values, which are checked before a device has them.
    if not any(isinstance(rule, BoxRule) for rule in rules):
        check_work(work, max(max_work, _WORK_OF_AN_ELEMENT * sum(each.type.element_count for each in call.inputs)))
    attributes = tuple(arguments.attributes[each.name] for each in spec.attributes)
    is_empty = any(tensor.type.element_count == 0 for tensor in call.inputs)
    output_bytes = sum(type.size_bytes for type in wanted.values())
    native_outputs = [
        (
            type.shape,
            type.dtype.acl,
            type.size_bytes,
            outputs[name].reply_prefix if name in outputs else b"",
            uses[name],
        )
        for name, type in types.items()
    ]
    return OperatorPlan(
        spec,
        inputs,
        rules,
        attributes,
        tuple(outputs.values()),
        output_bytes,
        size_bytes + sum(written),
        is_empty,
        bool(memory) or any(isinstance(tensor.data, SharedRange) for tensor in call.inputs),
        _CALL_WORK + work,
        encoded_bytes,
        native.CallPlan(
            spec.symbol,
            native_inputs,
            attributes,
            native_outputs,
            is_empty,
            spec.is_spatial,
            spec.is_planned_alone,
            untouched,
        ),
    )


def _use_of(output: OutputSpec, wanted: Container[str]) -> native.OutputUse:
    if output.name in wanted:
        return native.OutputUse.RETURNED_WHOLE if output.always_written else native.OutputUse.RETURNED
    return native.OutputUse.NULL if output.is_nullable else native.OutputUse.SCRATCH


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
        remedy = "send smaller tensors or fewer calls, or raise --pool-bytes (ACLGRAD_POOL_BYTES) of the server"
        metadata = {"size_bytes": str(size_bytes), "limit": str(limit)}
        raise LimitExceededError.at("call", problem, remedy, metadata)
