"""Memory goes back once nobody calls, and not before."""

import threading
from collections.abc import Iterator

import pytest

from aclgrad_server.active_calls import ActiveCalls
from aclgrad_server.idle_trim import IdleTrim
from tests.calling import wait_until
from tests.server.fakes import FakeDevice

IDLE_S = 0.02


class Trims:
    """Counts the trims of the heap."""

    def __init__(self) -> None:
        self.count = 0
        self.changed = threading.Condition()

    def __call__(self) -> bool:
        with self.changed:
            self.count += 1
            self.changed.notify_all()
        return True

    def stay(self, count: int) -> bool:
        """Says whether the count is still this after several looks of the thread."""
        with self.changed:
            return not self.changed.wait_for(lambda: self.count > count, 5 * IDLE_S) and self.count == count


@pytest.fixture
def calls() -> ActiveCalls:
    return ActiveCalls()


@pytest.fixture
def trims() -> Trims:
    return Trims()


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


@pytest.fixture
def idle_trim(calls: ActiveCalls, trims: Trims, device: FakeDevice) -> Iterator[IdleTrim]:
    trim = IdleTrim(calls, [device], trims, IDLE_S)
    trim.start()
    yield trim
    trim.stop()


def test_once_after_a_call(idle_trim: IdleTrim, calls: ActiveCalls, trims: Trims, device: FakeDevice) -> None:
    assert trims.stay(0)
    for count in (1, 2):
        calls.enter_handler()
        assert trims.stay(count - 1)
        calls.leave_handler()
        wait_until(lambda expected=count: trims.count == expected)
        assert trims.stay(count)
    assert device.trims == 2


def test_a_device_that_fails_does_not_keep_the_others(calls: ActiveCalls, trims: Trims, device: FakeDevice) -> None:
    trim = IdleTrim(calls, [FakeDevice(trim_fails=True), device], trims, IDLE_S)
    trim.start()
    calls.enter_handler()
    calls.leave_handler()
    wait_until(lambda: trims.count == 1)
    assert device.trims == 1
    trim.stop()


def test_zero_is_never(calls: ActiveCalls, trims: Trims) -> None:
    threads = threading.active_count()
    trim = IdleTrim(calls, [], trims, 0.0)
    trim.start()
    assert threading.active_count() == threads
    trim.stop()
