"""Memory of a call whose tensors come in pieces: of the device, and of the process for what is checked there."""

import pytest

from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from aclgrad.tensors import Announced, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.calls.admission import Admission, Occupancy
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.planning import OperatorPlan, Planner, plan_call
from tests.server.fakes import NO_LIMIT, FakeDevice, new_call, settle


def unpooling() -> OperatorPlan:
    """Returns the plan of a call whose indices are announced, and checked."""
    (typed,) = (each for each in first_cases(Product.ATLAS_A2) if each.spec.name == "max_unpool3d_backward")
    views = [view_of_array(*each) for each in typed.arrays().items()]
    inputs = [
        TensorView(each.name, each.type, Announced(0, each.type.size_bytes)) if each.name == "indices" else each
        for each in views
    ]
    return plan_call(OperatorCall(typed.spec.name, tuple(inputs), typed.case.attributes), Product.ATLAS_A2, NO_LIMIT)


@pytest.mark.parametrize("is_card", [True, False])
async def test_what_is_checked_is_charged_to_the_process_until_the_staging_ends(is_card: bool) -> None:
    plan, device = unpooling(), FakeDevice()
    (indices,) = (each for each in plan.inputs if each is not None and each.name == "indices")
    checked_bytes = indices.type.size_bytes
    admission = Admission(1, 16, 2**40, checked_limit=checked_bytes if is_card else None)
    runner = Runner(device, admission, Planner(Product.ATLAS_A2, NO_LIMIT), NO_LIMIT)
    for _ in range(2):
        async with runner.staged(new_call(), plan, Announced):
            on_device = plan.size_bytes if is_card else plan.size_bytes + checked_bytes
            assert admission.occupancy() == Occupancy(0, 0, on_device)
        await settle()
        # The second round would wait if anything of the process's memory were left.
        assert not device.staged
