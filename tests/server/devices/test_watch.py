"""Losses are noticed while no call comes, and memory goes back once nobody calls, and not before."""

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from aclgrad.errors import DeviceLostError, DeviceMemoryError
from aclgrad_server.devices.watch import IdleTrim, watch_device
from tests.server.fakes import FakeDevice, settle, wait_until

IDLE_S = 0.02


class Load:
    """Calls as the trim sees them."""

    def __init__(self) -> None:
        self.activity = 0
        self.is_busy = False
        self.heap_trims = 0

    def begin(self) -> None:
        self.activity += 1
        self.is_busy = True

    def end(self) -> None:
        self.activity += 1
        self.is_busy = False

    def trim_heap(self) -> bool:
        self.heap_trims += 1
        return True

    async def stays(self, count: int) -> bool:
        """Returns whether the heap was trimmed so often, also after several looks."""
        await asyncio.sleep(5 * IDLE_S)
        return self.heap_trims == count


@pytest.fixture
def load() -> Load:
    return Load()


@pytest.fixture
def devices() -> list[FakeDevice]:
    return [FakeDevice(0), FakeDevice(1)]


def trim_of(load: Load, devices: list[FakeDevice], idle_s: float = IDLE_S) -> IdleTrim:
    return IdleTrim(lambda: load.activity, lambda: load.is_busy, devices, idle_s, load.trim_heap)


@pytest.fixture
async def _idle_trim(load: Load, devices: list[FakeDevice]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(trim_of(load, devices).run())
    yield
    task.cancel()


@pytest.mark.usefixtures("_idle_trim")
async def test_memory_goes_back_once_after_calls(load: Load, devices: list[FakeDevice]) -> None:
    assert await load.stays(0)
    for count in (1, 2):
        load.begin()
        assert await load.stays(count - 1)
        load.end()
        await wait_until(lambda expected=count: load.heap_trims == expected)
        assert await load.stays(count)
    assert [device.trims for device in devices] == [2, 2]


@pytest.mark.usefixtures("_idle_trim")
async def test_device_that_fails_does_not_keep_the_others(load: Load, devices: list[FakeDevice]) -> None:
    devices[0].trim_error = DeviceLostError("lost")
    load.begin()
    load.end()
    await wait_until(lambda: load.heap_trims == 1)
    assert [device.trims for device in devices] == [0, 1]


async def test_zero_is_never(load: Load) -> None:
    await asyncio.wait_for(trim_of(load, [], 0.0).run(), 60)
    assert load.heap_trims == 0


async def test_trim_at_once(load: Load, devices: list[FakeDevice]) -> None:
    await trim_of(load, devices, 0.0).trim()
    assert load.heap_trims == 1
    assert [device.trims for device in devices] == [1, 1]


async def test_abandoned_work_is_released_again_and_again(devices: list[FakeDevice]) -> None:
    watch = asyncio.ensure_future(asyncio.gather(*map(watch_device, devices)))
    await wait_until(lambda: all(device.releases > 1 for device in devices))
    watch.cancel()


async def test_device_that_cannot_release_is_reported_and_asked_again(
    devices: list[FakeDevice], caplog: pytest.LogCaptureFixture
) -> None:
    devices[0].release_error = DeviceMemoryError("full")
    watch = asyncio.ensure_future(asyncio.gather(*map(watch_device, devices)))
    await wait_until(lambda: devices[0].releases > 2)
    watch.cancel()
    assert "abandoned work of device 0 cannot be released" in caplog.text
    assert devices[1].releases
    await settle()
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_devices_are_checked_while_a_release_hangs(devices: list[FakeDevice]) -> None:
    devices[0].release_hangs = True
    watch = asyncio.ensure_future(asyncio.gather(*map(watch_device, devices)))
    await wait_until(lambda: devices[0].releases > 0)
    before = devices[0].checks
    await wait_until(lambda: devices[0].checks > before + 2)
    assert devices[0].releases == 1
    watch.cancel()


async def test_lost_device_is_watched_no_more_and_the_others_are(devices: list[FakeDevice]) -> None:
    devices[0].loss = DeviceLostError("lost")
    watch = asyncio.ensure_future(asyncio.gather(*map(watch_device, devices)))
    await wait_until(lambda: devices[1].checks > 2)
    assert devices[0].checks == 1
    watch.cancel()
