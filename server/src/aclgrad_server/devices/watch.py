"""Looks after the devices while calls come and go: losses, memory that abandoned calls left, and idle memory."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.devices.device import Device

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.1
RELEASE_INTERVAL_S: Final = 0.5


class DeviceWatch:
    """Asks whether a device is lost, also while no call comes, and reclaims what abandoned calls held."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices

    async def run(self) -> None:
        await asyncio.gather(*map(self._watch, self._devices))

    async def _watch(self, device: Device) -> None:
        release: asyncio.Task[None] | None = None
        due = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            try:
                # Without the driver, so that a driver that hangs cannot hide it.
                device.check()
            except DeviceLostError:
                return  # the device has reported it
            if (release is None or release.done()) and time.monotonic() >= due:
                due = time.monotonic() + RELEASE_INTERVAL_S
                release = asyncio.ensure_future(_release(device))


async def _release(device: Device) -> None:
    try:
        await device.release_finished()
    except DeviceLostError:
        pass  # the device has reported it
    except AclgradError as error:
        log.warning("abandoned work of device %d cannot be released: %s", device.index, error.__cause__ or error)


class IdleTrim:
    """Trims the devices' pools and the heap when no call has begun, run or ended for `idle_s`; never if that is 0.

    It looks every `idle_s`, so it acts within twice that time, and then not again before another call.
    """

    def __init__(
        self,
        activity: Callable[[], int],
        is_busy: Callable[[], bool],
        devices: Sequence[Device],
        trim_heap: Callable[[], bool],
        idle_s: float,
    ) -> None:
        self._activity = activity
        self._is_busy = is_busy
        self._devices = devices
        self._trim_heap = trim_heap
        self._idle_s = idle_s

    async def run(self) -> None:
        seen = trimmed = self._activity()
        while self._idle_s:
            await asyncio.sleep(self._idle_s)
            activity = self._activity()
            if activity == seen != trimmed and not self._is_busy():
                await self.trim()
                trimmed = activity
            seen = activity

    async def trim(self) -> None:
        """Gives free memory of the devices and of the process back."""
        for device in self._devices:
            try:
                await device.trim()
            except AclgradError as error:
                # Calls meet the fault as well, and end the server if necessary.
                log.warning("device %d cannot give back memory: %s", device.index, error)
        had_some = await asyncio.to_thread(self._trim_heap)
        log.debug("pools trimmed, heap %s", "trimmed" if had_some else "without free memory")
