"""Plans: everything that the operator table and this server's limits determine for all steps of one form."""

import math
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import aclgrad_native as native
from aclgrad.errors import (
    LimitExceededError,
)
from aclgrad.operators.spec import Arguments, InputSpec, OperatorSpec, OutputSpec
from aclgrad.operators.validation import check_call, find_operator, overflows
from aclgrad.operators.values import BoolRule, BoxRule, ValueRule
from aclgrad.products import Pace, Product, Work
from aclgrad.tensors import TensorType, TensorView
from aclgrad.wire.messages import OperatorCall, response_prefix
from aclgrad_server.devices.checks import (
    check_of,
    check_presence,
    check_stored_bytes,
    check_tensor_size,
    check_work,
)
from aclgrad_server.devices.native_forms import in_place, kept, laned, native_attributes, use_of
from aclgrad_server.limits import GROUP_S, MAX_ROI_WORK

ENDLESS: Final = Pace(1e300, 1e300, 1e300, 0.0)
_WORK_OF_AN_ELEMENT: Final = 16  # operations for each element that any operator may need


@dataclass(frozen=True, slots=True)
class Limits:
    """A server's limits for a step; `shape_only` is that of `InputSpec.takes_shape`.

    Operators in `reads_views` get strided inputs as they are; for others the device copies them.

    A step may take `seconds` at the device's pace. Operations in proportion to the tensors are always allowed. The
    operations of boxes depend on their values and are checked when the step runs. A device that takes host pointers
    reads encoded inputs in place.
    """

    tensor_bytes: int
    shape_only: bool | None = None
    pace: Pace = ENDLESS
    seconds: float = 1e9
    host_pointers: bool = False
    reads_views: Container[str] = ()

    @property
    def work(self) -> Work:
        """A step's limit for each kind of operation."""
        return self.work_in(self.seconds)

    def work_in(self, seconds: float) -> Work:
        """Returns the operations of each kind that the device does in this time."""
        pace = self.pace
        return Work(pace.operations * seconds, pace.nbytes * seconds, pace.matrix_operations * seconds)


@dataclass(frozen=True, slots=True)
class PlannedOutput:
    """One output of a step that is known to be legal."""

    name: str
    type: TensorType
    reply_prefix: bytes  # the bytes before its data in an ExecuteOperatorResponse


@dataclass(slots=True)
class Workspace:
    """The largest workspace that the device library has requested for steps of one form."""

    size_bytes: int = 0


@dataclass(frozen=True)
class StepPlan:
    """The plan of a legal step, shared by all steps of its form, with inputs and outputs in aclnn order.

    The form has types, attributes, wanted outputs, and whether each input has values, but not their sources.
    """

    spec: OperatorSpec
    inputs: tuple[InputSpec, ...]  # the spec's, with one for each tensor of a list
    types: tuple[TensorType | None, ...]  # None for an input that was left out
    rules: tuple[ValueRule | None, ...]
    outputs: tuple[PlannedOutput, ...]  # the wanted ones
    input_bytes: tuple[int, ...]  # bytes of each input on the device
    output_bytes: int  # of the wanted outputs
    size_bytes: int  # bytes of all tensors on the device
    is_empty: bool  # whether an input has no elements: operators leave the outputs untouched then
    seconds: float  # estimated
    encoded: tuple[int, ...]  # bytes of each input that the process also keeps in the form that is checked or read
    work: Work  # with infinite operations if they depend on values
    guarantees: Mapping[str, ValueRule]  # of the outputs whose values follow a rule
    joins: bool  # whether the output is the concatenation of the inputs, unchanged
    native: native.CallTemplate  # the plan in the device's form
    workspace: Workspace = field(default_factory=Workspace, compare=False)

    @cached_property
    def least_allowed(self) -> int:
        """Operations that are always allowed for tensors of these sizes."""
        return _WORK_OF_AN_ELEMENT * sum(each.element_count for each in self.types if each is not None)

    @cached_property
    def encoded_bytes(self) -> int:
        return sum(self.encoded)

    @cached_property
    def reply_bytes(self) -> int:
        """The size of the ExecuteOperatorResponse."""
        return sum(len(each.reply_prefix) for each in self.outputs) + self.output_bytes


def plan_call(call: OperatorCall, product: Product, limits: Limits) -> StepPlan:
    """Returns the plan of a call, or raises a RequestError."""
    max_tensor_bytes = limits.tensor_bytes
    spec = find_operator(call.operator, product)
    reads_views = spec.name in limits.reads_views
    arguments = check_call(call, spec, product)
    given = {tensor.name: tensor for tensor in call.inputs}
    specs = spec.taken_of(given)
    inputs = tuple(given.get(each.name) for each in specs)
    rules = tuple(each.rule(arguments, product) if each.name in given else None for each in specs)
    written = {each.begins_as: place for place, each in enumerate(spec.outputs) if each.begins_as}
    planned = [
        # The copy that an output begins as follows the view.
        _stand_in(each, arguments)
        if tensor is None
        else _plan_input(tensor, each.lanes_of(tensor.type), rule, limits, reads_views or each.name in written)
        for each, tensor, rule in zip(specs, inputs, rules, strict=True)
    ]
    input_bytes = [0 if each is None else each.device_bytes for each in planned]
    types = {each.name: each.infer(arguments) for each in spec.outputs}
    for name, type in types.items():
        if overflows(type):
            problem = f"would be {type}, whose size overflows 64 bits"
            raise LimitExceededError.at(f"outputs[{name}]", problem, "ask for smaller sizes")
        check_tensor_size(f"outputs[{name}]", type, max_tensor_bytes)
    for each, tensor in zip(specs, inputs, strict=True):
        if tensor is not None:
            check_presence(each, tensor, arguments, product, limits.shape_only)
    wanted = {name: type for name, type in types.items() if not call.outputs or name in call.outputs}
    outputs = {name: PlannedOutput(name, type, response_prefix(name, type)) for name, type in wanted.items()}
    uses = {each.name: use_of(each, outputs) for each in spec.outputs}
    sizes = [0 if uses[name] == native.OutputUse.NULL else type.size_bytes for name, type in types.items()]
    untouched: dict[int, int] = {}
    for index, (each, tensor) in enumerate(zip(specs, inputs, strict=True)):
        if tensor is None or tensor.source.has_values or not each.is_unread(arguments, product):
            continue
        # An unread input shares the memory of an output of exactly its size.
        if each.name in written:
            input_bytes[index] = 0
        elif 0 < tensor.type.size_bytes in sizes:
            untouched[index] = sizes.index(tensor.type.size_bytes)
            input_bytes[index] = 0
    work = spec.work(arguments)
    # The work of boxes depends on their values, which are checked before the device gets them.
    if not any(isinstance(rule, BoxRule) for rule in rules):
        of_elements = _WORK_OF_AN_ELEMENT * sum(each.type.element_count for each in call.inputs)
        check_work(work, limits.work, of_elements, "a device that takes so long counts as lost")
    is_empty = spec.is_skipped(arguments)
    joins = spec.joins(arguments) and all(each.view is None for each in given.values())
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
    for place in spec.null_outputs:
        native_outputs.insert(place, ((), call.inputs[0].type.dtype.acl, 0, b"", native.OutputUse.NULL))
    return StepPlan(
        spec,
        specs,
        tuple(None if each is None else each.type for each in inputs),
        rules,
        tuple(outputs.values()),
        tuple(input_bytes),
        sum(type.size_bytes for type in wanted.values()),
        sum(input_bytes) + sum(sizes),
        is_empty,
        # A step whose work depends on values is not small, has its own group, and does not count in retry delays.
        limits.pace.seconds(work) if math.isfinite(work.operations) else GROUP_S,
        tuple(0 if each is None else each.process_bytes for each in planned),
        work,
        {each.name: rule for each in spec.outputs if (rule := _guarantee(each, types, arguments, product)) is not None},
        joins,
        native.CallTemplate(
            spec.symbol,
            [None if each is None else each.native for each in planned],
            native_attributes(spec, arguments, product),
            native_outputs,
            is_empty,
            spec.is_spatial,
            spec.is_planned_alone,
            untouched,
            {
                index: in_place(spec, written[each.name], arguments, types)
                for index, each in enumerate(specs)
                if each.name in written
            },
            joins,
        ),
    )


@dataclass(frozen=True, slots=True)
class _PlannedInput:
    device_bytes: int  # bytes on the device
    process_bytes: int  # bytes of the process's copies
    native: native.Input


def _stand_in(spec: InputSpec, arguments: Arguments) -> _PlannedInput | None:
    """Returns the plan of the substitute for an omitted input; None for null."""
    constant = spec.stands_in(arguments)
    return None if constant is None else _PlannedInput(0, 0, kept(constant))


def _plan_input(
    tensor: TensorView, lanes: int, rule: ValueRule | None, limits: Limits, reads_views: bool
) -> _PlannedInput:
    """Returns the plan of an input; raises LimitExceededError for a shape, or bytes, beyond the limit."""
    field, type, view = f"inputs[{tensor.name}]", tensor.type, tensor.view
    if lanes:
        type, view = laned(type, view, lanes)
    check_tensor_size(f"{field}.shape", type, limits.tensor_bytes)
    on_device = type if rule is None else rule.device_type(type)
    check_tensor_size(f"{field} on the device", on_device, limits.tensor_bytes)
    # Nothing is read of a tensor without elements, however many bytes lie under its view.
    checked = rule if type.element_count else None
    check, is_prefix = check_of(checked, type, round(min(limits.work.operations, MAX_ROI_WORK)))
    encoded = 0 if check is None else check.encoded_bytes(type.size_bytes)
    process_bytes = 0 if limits.host_pointers and encoded == on_device.size_bytes else encoded
    shape, dtype = on_device.shape, on_device.dtype.acl
    stored_bytes = tensor.source.nbytes
    if view is not None:
        check_stored_bytes(field, stored_bytes, limits.tensor_bytes)
    if view is None or not type.element_count:
        planned = native.Input(shape, dtype, is_prefix=is_prefix, check=check)
        # An empty view may lie over bytes, which shared memory brings along; for an input with a rule, to the host.
        device_bytes = on_device.size_bytes if view is None or rule is not None else stored_bytes
        return _PlannedInput(device_bytes, process_bytes, planned)
    strides = native.View(view.offset, view.strides_of(type.shape), stored_bytes // type.dtype.itemsize)
    if rule is not None:
        # Row-major before it is checked, so that the check reads the same copy as the device.
        gathering = native.Gathering(type.shape, type.dtype.itemsize, strides)
        planned = native.Input(shape, dtype, is_prefix=is_prefix, check=check, gathering=gathering)
        return _PlannedInput(on_device.size_bytes, process_bytes + type.size_bytes, planned)
    planned = native.Input(shape, dtype, view=strides, is_copied=not reads_views)
    device_bytes = max(stored_bytes, type.size_bytes) if reads_views else stored_bytes + type.size_bytes
    return _PlannedInput(device_bytes, 0, planned)


def _guarantee(
    output: OutputSpec, types: Mapping[str, TensorType], arguments: Arguments, product: Product
) -> ValueRule | None:
    """Returns the rule that all values of an output follow; bools are 0 or 1."""
    if output.guarantees is not None:
        return output.guarantees(arguments, product)
    return BoolRule() if types[output.name].dtype.name == "bool" else None
