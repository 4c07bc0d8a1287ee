"""A loss is noticed while no call comes, and what fails or hangs does not keep the watch from the rest."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aclgrad.errors import DeviceLostError, DeviceMemoryError, ServerFaultError
from aclgrad_server.devices import watch
from aclgrad_server.devices.watch import refresh, trim_memory, watch_device
from aclgrad_server.liveness import BackgroundTasks, Heartbeat
from tests.server.fake_device import FakeDevice
from tests.server.fakes import settle, wait_until


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHECK_INTERVAL_S", "RELEASE_INTERVAL_S", "SAMPLE_INTERVAL_S", "REFRESH_LIMIT_S"):
        monkeypatch.setattr(watch, name, 0.01)


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice(3)


@asynccontextmanager
async def watched(device: FakeDevice) -> AsyncIterator[Heartbeat]:
    heartbeat = Heartbeat()
    tasks = BackgroundTasks(heartbeat)
    watch_device(device, tasks)
    yield heartbeat
    await tasks.stop()


async def test_memory_is_trimmed_and_a_device_that_cannot_is_reported(
    device: FakeDevice, caplog: pytest.LogCaptureFixture
) -> None:
    await trim_memory(device)
    assert (device.trims, caplog.text) == (1, "")
    device.trim_error = DeviceLostError("lost")
    await trim_memory(device)
    assert "device 3 cannot give back memory" in caplog.text


async def test_abandoned_work_is_released_again_and_again_and_who_cannot_is_reported(
    device: FakeDevice, caplog: pytest.LogCaptureFixture
) -> None:
    device.release_error = DeviceMemoryError("full")
    async with watched(device):
        await wait_until(lambda: device.releases > 2)
    assert "abandoned work of device 3 cannot be released" in caplog.text
    await settle()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_device_is_checked_while_its_driver_hangs_and_what_hangs_ends_with_the_watch(device: FakeDevice) -> None:
    """Else it would hold the device, which would then be closed on the loop's thread when it ends."""
    device.release_hangs = device.sample_hangs = True
    async with watched(device):
        await wait_until(lambda: device.releases > 0 and device.samples > 0)
        before = device.checks
        await wait_until(lambda: device.checks > before + 2)
        assert (device.releases, device.samples) == (1, 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_device_whose_check_fails_by_surprise_is_checked_again(
    device: FakeDevice, caplog: pytest.LogCaptureFixture
) -> None:
    device.loss = ServerFaultError("the device library answered ACL error 5")
    async with watched(device) as heartbeat:
        await wait_until(lambda: device.checks > 1)
        device.loss = None
        await wait_until(lambda: device.checks > 4)
        assert heartbeat.failure() is None
    assert "'check of device 3' failed" in caplog.text


async def test_sample_is_refreshed_but_nobody_waits_for_a_driver_that_hangs(device: FakeDevice) -> None:
    await refresh(device)
    assert device.samples == 1
    device.sample_hangs = True
    await asyncio.wait_for(refresh(device), 60)
    assert device.samples == 2


async def test_lost_device_is_checked_no_more(device: FakeDevice) -> None:
    device.loss = DeviceLostError("lost")
    async with watched(device) as heartbeat:
        # What else there is to watch goes on meanwhile.
        await wait_until(lambda: device.releases > 1)
        assert device.checks == 1
        # The process ends by the loss, and is alive until then.
        assert heartbeat.failure() is None
