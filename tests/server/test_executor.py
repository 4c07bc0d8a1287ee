"""Plans reach the right device, once it is their turn, and in time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from aclgrad.errors import DeadlinePassedError
from aclgrad.products import Product
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.admission import Admission, Occupancy
from aclgrad_server.executor import Executor
from aclgrad_server.validation import OperatorPlan, plan_call
from tests.calling import wait_until

from .fakes import FakeDevice, pooling_plan, tensor

LATER = time.monotonic() + 3600


def test_reply_is_a_response_with_what_the_device_wrote() -> None:
    device = FakeDevice()
    plan = pooling_plan(1, 2, 3)
    reply = Executor([device], Admission(1, 1)).execute(plan, LATER)
    (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
    assert (output.name, list(output.shape), output.data) == ("out", [1, 2, 3], b"\x01" * 24)
    assert [executed for executed, _ in device.executed] == [plan]


@pytest.mark.parametrize("shape", [(0, 4, 4), (2, 0, 4), (3, 4, 0)], ids=str)
def test_call_without_elements_is_answered_with_zeros_and_no_device(shape: tuple[int, ...]) -> None:
    device = FakeDevice()
    reply = Executor([device], Admission(1, 1)).execute(pooling_plan(*shape), LATER)
    (output,) = pb.ExecuteOperatorResponse.FromString(reply).outputs
    assert (list(output.shape), output.data) == (list(shape), b"")
    assert device.executed == []


def test_empty_gradient_of_a_full_tensor_is_zeros() -> None:
    inputs = (tensor("grad_output", 1, 0, 2, data=b""), tensor("self", 1, 2, 2))
    plan = plan_call(OperatorCall("adaptive_avg_pool2d_backward", inputs, {}), Product.ATLAS_A2, 2**20)
    device = FakeDevice()
    reply = Executor([device], Admission(1, 1)).execute(plan, LATER)
    assert pb.ExecuteOperatorResponse.FromString(reply).outputs[0].data == bytes(16)
    assert device.executed == []


def test_the_device_with_the_fewest_outstanding_bytes_is_chosen() -> None:
    arrived: list[int] = []
    release = {0: threading.Event(), 1: threading.Event(), 2: threading.Event()}

    def hold(index: int, plan: OperatorPlan) -> None:
        arrived.append(index)
        assert release[index].wait(60)

    devices = [FakeDevice(index, lambda plan, index=index: hold(index, plan)) for index in range(3)]
    executor = Executor(devices, Admission(16, 1, [2**40] * 3))
    with ThreadPoolExecutor(8) as pool:
        outcomes = []
        for size, expected in ((100, 0), (10, 1), (50, 2), (10, 1), (10, 1), (80, 1), (10, 2)):
            outcomes.append(pool.submit(executor.execute, pooling_plan(1, size, size), LATER))
            wait_until(lambda: len(arrived) == len(outcomes))
            assert arrived[-1] == expected
        release[0].set()
        outcomes[0].result(60)
        outcomes.append(pool.submit(executor.execute, pooling_plan(1, 1, 1), LATER))
        wait_until(lambda: len(arrived) == len(outcomes))
        assert arrived[-1] == 0
        release[1].set()
        release[2].set()


def test_the_device_is_told_what_is_left_of_the_time() -> None:
    device = FakeDevice()
    Executor([device], Admission(1, 1)).execute(pooling_plan(1, 2, 2), time.monotonic() + 1000)
    ((_, timeout_s),) = device.executed
    assert 900 < timeout_s <= 1000


def test_call_that_is_too_late_reaches_no_device() -> None:
    device = FakeDevice()
    executor = Executor([device], Admission(1, 1))
    with pytest.raises(DeadlinePassedError):
        executor.execute(pooling_plan(1, 2, 2), time.monotonic() - 1)
    assert device.executed == []
    assert executor.admission.occupancy() == Occupancy(0, 0)


def test_failure_of_a_device_frees_the_place_and_the_bytes() -> None:
    def fail(plan: OperatorPlan) -> None:
        raise ZeroDivisionError

    devices = [FakeDevice(0, fail), FakeDevice(1)]
    executor = Executor(devices, Admission(1, 1, [2**40] * 2))
    with pytest.raises(ZeroDivisionError):
        executor.execute(pooling_plan(1, 9, 9), LATER)
    assert executor.admission.occupancy() == Occupancy(0, 0)
    with pytest.raises(ZeroDivisionError):
        executor.execute(pooling_plan(1, 2, 2), LATER)
    assert devices[1].executed == []
