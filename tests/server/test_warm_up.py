"""A device has to answer a call before the server is ready."""

import time

import pytest

from aclgrad.errors import DeadlinePassedError, DeviceLostError, DeviceMemoryError
from aclgrad.operators.cases import typed_cases
from aclgrad.products import Product
from aclgrad_server.devices.faults import StartError
from aclgrad_server.devices.watch import warm_up
from aclgrad_server.plan import OperatorPlan
from tests.server.fakes import FakeDevice, raising

SYMBOL = next(typed_cases(Product.ATLAS_A2)).spec.symbol


async def test_device_is_called_once_within_the_time_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    device = FakeDevice(3)
    await warm_up(device, Product.ATLAS_A2, timeout_s=1000)
    ((plan, deadline),) = device.executed
    assert plan.spec.symbol == SYMBOL
    assert all(tensor.data is not None for tensor in plan.inputs)
    assert time.monotonic() < deadline <= time.monotonic() + 1000
    assert f"device 3 answered {SYMBOL}" in caplog.text


async def test_device_that_fails_stops_the_start_with_the_cause() -> None:
    async def fail(plan: OperatorPlan) -> None:
        raise DeviceLostError("the device failed") from RuntimeError("phase 2 returned 507015: trap")

    with pytest.raises(StartError, match=f"device 3 does not answer {SYMBOL}: phase 2 returned 507015: trap"):
        await warm_up(FakeDevice(3, fail), Product.ATLAS_A2, 1000)


async def test_cause_is_told_with_the_remedy() -> None:
    async def fail(plan: OperatorPlan) -> None:
        raise DeviceMemoryError("full", remedy="raise --pool-bytes") from RuntimeError("207001")

    with pytest.raises(StartError, match="207001; raise --pool-bytes"):
        await warm_up(FakeDevice(0, fail), Product.ATLAS_A2, 1000)


async def test_device_that_is_late_stops_the_start() -> None:
    with pytest.raises(StartError, match="was not done in time"):
        await warm_up(FakeDevice(0, raising(DeadlinePassedError("was not done in time"))), Product.ATLAS_A2, 1000)


async def test_pool_that_cannot_hold_the_call_stops_the_start() -> None:
    device = FakeDevice()
    device.pool_limit_bytes = 1
    with pytest.raises(StartError, match=r"holds 1 at most; .*--pool-bytes"):
        await warm_up(device, Product.ATLAS_A2, 1000)
    assert device.executed == []
