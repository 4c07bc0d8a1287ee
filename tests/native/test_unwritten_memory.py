"""What other calls left in device memory never reaches a reply."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from aclgrad.tensors import array_of_view, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response
from aclgrad_native import Place
from aclgrad_server.calls.arena import Arena
from aclgrad_server.devices import plan as plan_module
from aclgrad_server.devices.plan import Limits, plan_call
from aclgrad_server.devices.steps import PlannedStep, planned_step

from .blocking import BlockingDevice, lane
from .forked import open_device
from .forks import in_fork

PRODUCT = Product.ATLAS_A2
NO_LIMIT = 2**62
SECRET, FILLING = b"\xa5", b"\xff"


def steps_of(typed: TypedCase) -> tuple[PlannedStep, PlannedStep]:
    """Returns the step of the server, and that of an operator whose outputs are said to be always written."""
    views = tuple(view_of_array(name, array) for name, array in typed.arrays().items())
    call = OperatorCall(typed.spec.name, views, typed.case.attributes)
    outputs = tuple(replace(each, always_written="the test") for each in typed.spec.outputs)
    with pytest.MonkeyPatch.context() as patch:
        whole = replace(typed.spec, outputs=outputs)
        patch.setattr(plan_module, "find_operator", lambda *_: whole)
        exempt = plan_call(call, PRODUCT, Limits(NO_LIMIT))
    plans = plan_call(call, PRODUCT, Limits(NO_LIMIT)), exempt
    first, second = (planned_step(call, each) for each in plans)
    return first, second


def contents_of(step: PlannedStep) -> list[memoryview | None]:
    return [None if each is None else each.data for each in step.sources]


def spill(device: BlockingDevice, step: PlannedStep) -> None:
    """Leaves the secret in every block that the call can be given; older bytes stay in the gaps between them."""
    device.wait_until_released()
    plan = step.plan
    types = *plan.types, *(each.type for each in plan.outputs)
    sizes = [each.size_bytes for each in types if each is not None]
    tensors = device.stage(*[size for size in sizes for _ in range(len(sizes) + 1) if size])
    for tensor in tensors:
        tensor.write(0, SECRET * tensor.native.size_bytes)
    del tensors, tensor
    device.wait_until_released()


def gradients(device: BlockingDevice, step: PlannedStep) -> list[bytes]:
    spill(device, step)
    reply = device.execute(step.plan.native, contents_of(step))
    return [array_of_view(each).tobytes() for each in decode_response(reply)]


def staged_gradient(device: BlockingDevice, step: PlannedStep) -> bytes:
    """Returns the only output of a call that writes it to a staged tensor."""
    (output,) = step.plan.outputs
    spill(device, step)
    (target,) = device.stage(output.type.size_bytes)
    device.execute_into(step.plan.native, contents_of(step), target)
    return target.read(0, output.type.size_bytes)


def intermediates(device: BlockingDevice, step: PlannedStep) -> bytes:
    """Returns what stands in the places of a lane where the outputs are for later steps."""
    spill(device, step)
    arena, sinks = Arena(), []
    for each in step.plan.outputs:
        sinks.append((Place(arena.take(each.type.size_bytes), each.type.size_bytes), True))
    given = step.plan.native, contents_of(step), b"", sinks, [], []
    reply, errors, _ = device.run_group([given], [lane(0, arena_bytes=arena.size_bytes)])
    assert errors == [None]
    return b"".join(array_of_view(each).tobytes() for each in decode_response(reply))


def wrong_calls(device: BlockingDevice) -> Iterator[str]:
    """Yields the calls that return anything but the filling, on a device whose operators succeed and write nothing."""
    for typed in first_cases(PRODUCT, every_dtype=True):
        step, exempt = steps_of(typed)
        filling = [FILLING * each.type.size_bytes for each in step.plan.outputs]
        if gradients(device, step) != filling:
            yield f"{typed}: not filled"
        if intermediates(device, step) != b"".join(filling):
            yield f"{typed}: not filled where later steps read it"
        if len(filling) == 1 and staged_gradient(device, step) != filling[0]:
            yield f"{typed}: not filled where it is staged"
        # A small output may lie in a gap, behind a workspace.
        if not any(SECRET in each for each in gradients(device, exempt)):
            yield f"{typed}: the secret was in no output's memory"


@in_fork(host_pointers=False, strict=True, faults=[{"kind": "unwritten_output", "at": 1, "count": 2**62}])
def test_an_output_that_no_operator_writes_is_filled() -> None:
    """Of every operator, in every dtype: a card may report success and write nothing."""
    found = list(wrong_calls(open_device()))
    assert not found, "\n".join(found)
