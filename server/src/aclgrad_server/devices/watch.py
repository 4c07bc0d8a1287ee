"""Watches the devices: losses, abandoned work, and idle memory."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Final

from aclgrad.allocator import trim_allocator
from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.devices.device import Device

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.1
RELEASE_INTERVAL_S: Final = 0.5


async def watch_device(device: Device) -> None:
    """Checks for lost devices, also when there are no calls, and reclaims what abandoned calls held."""
    release: asyncio.Task[None] | None = None
    due = time.monotonic()
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        try:
            # Does not call the driver, so that it also works if the driver hangs.
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


async def trim_memory(devices: Sequence[Device]) -> None:
    """Releases free memory of the devices and of the process."""
    for device in devices:
        try:
            await device.trim()
        except AclgradError as error:
            # Calls see the fault too, and end the server if necessary.
            log.warning("device %d cannot give back memory: %s", device.index, error)
    had_some = await asyncio.to_thread(trim_allocator)
    log.debug("pools trimmed, heap %s", "trimmed" if had_some else "without free memory")
