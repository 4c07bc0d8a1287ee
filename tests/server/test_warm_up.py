"""A device has to answer a call before the server is ready."""

import logging
import time

import pytest

from aclgrad.errors import DeadlinePassedError, DeviceLostError
from aclgrad.operators.cases import typed_cases
from aclgrad.products import Product
from aclgrad_server.faults import StartError
from aclgrad_server.validation import OperatorPlan
from aclgrad_server.warm_up import warm_up

from .fakes import FakeDevice

SYMBOL = next(typed_cases(Product.ATLAS_A2)).spec.symbol


def test_device_is_called_once_within_the_time_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    device = FakeDevice(3)
    warm_up(device, Product.ATLAS_A2, timeout_s=1000)
    ((plan, timeout_s),) = device.executed
    assert plan.spec.symbol == SYMBOL
    assert all(tensor.data is not None for tensor in plan.inputs)
    assert timeout_s <= 1000
    assert f"device 3 answered {SYMBOL}" in caplog.text


def test_device_that_fails_stops_the_start_with_the_cause() -> None:
    def fail(plan: OperatorPlan) -> None:
        raise DeviceLostError("the device failed") from RuntimeError("phase 2 returned 507015: trap")

    with pytest.raises(StartError, match=f"device 3 does not answer {SYMBOL}: phase 2 returned 507015: trap"):
        warm_up(FakeDevice(3, fail), Product.ATLAS_A2, 1000)


def test_device_that_is_late_stops_the_start() -> None:
    def hang(plan: OperatorPlan) -> None:
        raise DeadlinePassedError("the device was not done in time")

    with pytest.raises(StartError, match="was not done in time"):
        warm_up(FakeDevice(0, hang), Product.ATLAS_A2, 1000)


def test_no_time_at_all_stops_the_start() -> None:
    device = FakeDevice()
    with pytest.raises(StartError, match="deadline"):
        warm_up(device, Product.ATLAS_A2, -time.monotonic())
    assert device.executed == []
