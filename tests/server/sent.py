"""Calls and programs as clients send them."""

from collections.abc import Iterable, Sequence

from aclgrad.products import Product
from aclgrad.sources import SHAPE_ONLY, OutputOf, Source, TableEntry, in_message
from aclgrad.tensors import DTYPES, TensorType, TensorView, View
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import encode_program
from aclgrad.wire.values import AttributeValue, referred_bytes
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from aclgrad_server.devices.steps import PlannedStep, planned_step

NO_LIMIT = 2**63 - 1


def tensor(
    name: str, *shape: int, dtype: str = "float32", data: bytes | None = None, view: View | None = None
) -> TensorView:
    source = SHAPE_ONLY if data is None else in_message(memoryview(data))
    return TensorView(name, TensorType(DTYPES[dtype], shape), source, view)


def output_of(
    step: int, name: str, *shape: int, output: str = "out", dtype: str = "float32", view: View | None = None
) -> TensorView:
    """Returns an input that is an output of an earlier step."""
    type = TensorType(DTYPES[dtype], shape)
    return TensorView(name, type, OutputOf(step, output, referred_bytes(type, view)), view)


def entry(index: int, name: str, *shape: int, dtype: str = "float32", view: View | None = None) -> TensorView:
    """Returns an input that is a tensor of the table."""
    type = TensorType(DTYPES[dtype], shape)
    return TensorView(name, type, TableEntry(index, referred_bytes(type, view)), view)


def pooling_call(*self_shape: int, source: Source | None = None) -> OperatorCall:
    """Returns a legal call whose output has this shape."""
    pooled = (*self_shape[:-2], 1, 1)
    grad_output = tensor("grad_output", *pooled)
    if source is None:
        source = in_message(memoryview(bytes(grad_output.type.size_bytes)))
    inputs = (TensorView("grad_output", grad_output.type, source), tensor("self", *self_shape))
    return OperatorCall("adaptive_avg_pool2d_backward", inputs, {})


def pooling_plan(*self_shape: int) -> StepPlan:
    return plan_call(pooling_call(*self_shape), Product.ATLAS_A2, Limits(NO_LIMIT))


def step_of(call: OperatorCall, plan: StepPlan | None = None) -> PlannedStep:
    """Returns the step of a call, by default with a plan of its own."""
    return planned_step(call, plan or plan_call(call, Product.ATLAS_A2, Limits(NO_LIMIT)))


def contents_of(call: OperatorCall, plan: StepPlan) -> list[memoryview | None]:
    """Returns the bytes of a call's inputs in the operator's order."""
    given = {each.name: each.data for each in call.inputs}
    return [given.get(each.name) for each in plan.inputs]


def tanh_call(grad_output: TensorView, output: TensorView, outputs: tuple[str, ...] = ()) -> OperatorCall:
    """Returns a call of a step that a chain may be made of: inputs and output have one shape."""
    return OperatorCall("tanh_backward", (grad_output, output), {}, outputs=outputs)


def call_of(operator: str, *inputs: TensorView, **attributes: AttributeValue) -> OperatorCall:
    return OperatorCall(operator, inputs, attributes)


def program_of(
    *calls: OperatorCall | bytes,
    tensors: Iterable[TensorView] = (),
    returned: Sequence[tuple[int, str]] = (),
    product: str = "",
) -> bytes:
    """Returns an ExecuteProgramRequest of these calls, or of bytes that are taken for one."""
    steps = [each if isinstance(each, bytes) else encode_request(each) for each in calls]
    return encode_program(steps, tensors, [OutputOf(step, output, 0) for step, output in returned], product)
