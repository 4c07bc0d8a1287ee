"""What other calls left in device memory never reaches a reply."""

import time

import numpy as np
import pytest

import aclgrad_native
from aclgrad import reference
from aclgrad.operators.cases import TypedCase, typed_cases
from aclgrad.products import Product
from aclgrad.tensors import array_of_view, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response
from aclgrad_server.admission import Admission
from aclgrad_server.executor import Executor
from aclgrad_server.native_device import NativeDevice
from aclgrad_server.settings import Settings
from aclgrad_server.validation import plan_call
from tests.native.pooling import pool

NO_LIMIT = 2**62
FAR_AWAY = 100.0


@pytest.fixture(scope="module")
def device(library: aclgrad_native.AclLibrary) -> NativeDevice:
    return NativeDevice(library, 0, Settings(streams=1, pool_bytes=64 * 2**20))


def poison(device: NativeDevice) -> None:
    """Leaves values that no gradient has in every block of the pool that a small case can be given."""
    native = device._device  # noqa: SLF001 - there is no public way to leave memory dirty
    for side in (1, 4, 8, 16, 32, 64, 128):
        grad_output = np.full((2, side, side), FAR_AWAY, np.float32)
        assert (pool(native, grad_output, grad_output.shape) == FAR_AWAY).all()


@pytest.mark.parametrize("typed", [case for case in typed_cases(Product.ATLAS_A2) if case.dtype == "float32"], ids=str)
def test_a_gradient_is_written_completely(device: NativeDevice, typed: TypedCase) -> None:
    poison(device)
    arrays = typed.arrays()
    views = tuple(view_of_array(name, array) for name, array in arrays.items())
    plan = plan_call(OperatorCall(typed.spec.name, views, typed.case.attributes), Product.ATLAS_A2, NO_LIMIT)
    reply = Executor([device], Admission(1, 1)).execute(plan, time.monotonic() + 60)
    gradient = array_of_view(decode_response(reply)[0])
    truth = reference.define(typed.spec.name, arrays, typed.case.attributes)
    tolerance = typed.spec.tolerances[typed.dtype]
    np.testing.assert_allclose(gradient, truth, tolerance.relative, tolerance.absolute)


def test_every_operator_has_a_case_with_cells_that_nothing_is_added_to() -> None:
    """The test above can only find memory that was left unwritten where the gradient is zero without a sum."""
    with_zeros = {
        typed.spec.name
        for typed in typed_cases(Product.ATLAS_A2)
        if typed.dtype == "float32"
        and (reference.define(typed.spec.name, typed.arrays(), typed.case.attributes) == 0).any()
    }
    assert with_zeros >= {
        "adaptive_avg_pool2d_backward",
        "max_pool2d_with_mask_backward",
        "replication_pad2d_backward",
        "roi_align_v2_backward",
    }
