"""What other calls left in device memory never reaches a reply."""

import time
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference
from aclgrad.operators.cases import TypedCase, arrays_of, typed_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.samples import samples_of
from aclgrad.operators.spec import Tolerance
from aclgrad.products import Product
from aclgrad.tensors import array_of_view, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.planning import plan_call
from aclgrad_server.settings import Settings

NO_LIMIT = 2**62
FAR_AWAY = 100.0


@pytest.fixture
async def device(library: aclgrad_native.AclLibrary) -> AsyncIterator[Device]:
    completions = Completions()
    yield Device(library, 0, Settings(streams=1, pool_bytes=64 * 2**20), completions, lambda *_: None)
    completions.close()


async def run(device: Device, name: str, arrays: dict[str, np.ndarray], attributes: Any) -> tuple[np.ndarray, ...]:
    views = tuple(view_of_array(name, array) for name, array in arrays.items())
    plan = plan_call(OperatorCall(name, views, attributes), Product.ATLAS_A2, NO_LIMIT)
    reply = await device.execute(plan, plan.contents(()), time.monotonic() + 60, lambda: None)
    return tuple(map(array_of_view, decode_response(reply)))


async def poison(device: Device) -> None:
    """Leaves values that no gradient has in every block of the pool that a small case can be given."""
    for side in (1, 4, 8, 16, 32, 64, 128):
        full = np.full((2, side, side), FAR_AWAY, np.float32)
        (gradient,) = await run(device, "adaptive_avg_pool2d_backward", {"grad_output": full, "self": full}, {})
        assert (gradient == FAR_AWAY).all()


@pytest.mark.parametrize("typed", [case for case in typed_cases(Product.ATLAS_A2) if case.dtype == "float32"], ids=str)
async def test_a_gradient_is_written_completely(device: Device, typed: TypedCase) -> None:
    await poison(device)
    arrays = typed.arrays()
    gradients = await run(device, typed.spec.name, arrays, typed.case.attributes)
    truths = arrays_of(reference.define(typed.spec.name, arrays, typed.case.attributes))
    tolerance = typed.spec.tolerances[typed.dtype]
    for gradient, truth in zip(gradients, truths, strict=True):
        np.testing.assert_allclose(gradient, truth, tolerance.relative, tolerance.absolute)


def has_empty_sums(typed: TypedCase) -> bool:
    gradients = arrays_of(reference.define(typed.spec.name, typed.arrays(), typed.attributes))
    return any((each == 0).any() for each in gradients)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_that_may_leave_cells_without_a_sum_has_such_a_case(name: str) -> None:
    """The test above can only find memory that was left unwritten where the gradient is zero without a sum."""
    spec, generator = OPERATORS[name], np.random.default_rng(5)
    drawn = [samples_of(name).draw(lambda least, most: int(generator.integers(least, most + 1))) for _ in range(60)]
    is_exact = spec.tolerances["float32"] == Tolerance(0.0, 0.0)  # gathers: every cell has a value
    if not is_exact and any(has_empty_sums(TypedCase(spec, case, "float32")) for case in drawn):
        cases = [typed for typed in typed_cases(Product.ATLAS_A2) if typed.spec is spec and typed.dtype == "float32"]
        assert any(map(has_empty_sums, cases))
