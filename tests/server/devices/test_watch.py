"""Losses are noticed while no call comes, and one device that fails does not keep others from what they do."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aclgrad.errors import DeviceLostError, DeviceMemoryError, ServerFaultError
from aclgrad_server.devices.watch import refresh, trim_memory, watch_device
from aclgrad_server.liveness import BackgroundTasks, Heartbeat
from tests.server.fakes import FakeDevice, settle, wait_until


@pytest.fixture
def devices() -> list[FakeDevice]:
    return [FakeDevice(0), FakeDevice(1)]


@asynccontextmanager
async def watched(devices: list[FakeDevice]) -> AsyncIterator[Heartbeat]:
    heartbeat = Heartbeat()
    tasks = BackgroundTasks(heartbeat)
    for device in devices:
        watch_device(device, tasks)
    yield heartbeat
    await tasks.stop()


async def test_memory_of_a_device_that_fails_does_not_keep_that_of_others(
    devices: list[FakeDevice], caplog: pytest.LogCaptureFixture
) -> None:
    devices[0].trim_error = DeviceLostError("lost")
    await trim_memory(devices)
    assert [device.trims for device in devices] == [0, 1]
    assert "device 0 cannot give back memory" in caplog.text


async def test_abandoned_work_is_released_again_and_again_and_who_cannot_is_reported(
    devices: list[FakeDevice], caplog: pytest.LogCaptureFixture
) -> None:
    devices[0].release_error = DeviceMemoryError("full")
    async with watched(devices):
        await wait_until(lambda: devices[0].releases > 2)
    assert "abandoned work of device 0 cannot be released" in caplog.text
    assert devices[1].releases > 1
    await settle()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_devices_are_checked_while_a_driver_hangs_and_what_hangs_ends_with_the_watch(
    devices: list[FakeDevice],
) -> None:
    """Else it would hold the device, which would then be closed on the loop's thread when it ends."""
    devices[0].release_hangs = devices[0].sample_hangs = True
    async with watched(devices):
        await wait_until(lambda: devices[0].releases > 0 and devices[0].samples > 0)
        before = devices[0].checks
        await wait_until(lambda: devices[0].checks > before + 2)
        assert (devices[0].releases, devices[0].samples) == (1, 1)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_device_whose_check_fails_by_surprise_is_checked_again(
    devices: list[FakeDevice], caplog: pytest.LogCaptureFixture
) -> None:
    devices[0].loss = ServerFaultError("the device library answered ACL error 5")
    async with watched(devices) as heartbeat:
        await wait_until(lambda: devices[0].checks > 1)
        devices[0].loss = None
        await wait_until(lambda: devices[0].checks > 4)
        assert heartbeat.failure() is None
    assert "'check of device 0' failed" in caplog.text


async def test_samples_are_refreshed_but_nobody_waits_for_a_driver_that_hangs(devices: list[FakeDevice]) -> None:
    devices[0].sample_hangs = True
    await asyncio.wait_for(refresh(devices), 60)
    assert [device.samples for device in devices] == [1, 1]


async def test_lost_device_is_watched_no_more_and_the_others_are(devices: list[FakeDevice]) -> None:
    devices[0].loss = DeviceLostError("lost")
    async with watched(devices) as heartbeat:
        await wait_until(lambda: devices[1].checks > 2)
        assert devices[0].checks == 1
        # The process ends by the loss, and is alive until then.
        assert heartbeat.failure() is None
