"""Watches the device for losses, abandoned work, use and idle memory."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from aclgrad.allocator import trim_allocator
from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.devices.device import Device
from aclgrad_server.liveness import BackgroundTasks

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.1
RELEASE_INTERVAL_S: Final = 0.5
SAMPLE_INTERVAL_S: Final = 1.0
REFRESH_LIMIT_S: Final = 0.25


def watch_device(device: Device, tasks: BackgroundTasks) -> None:
    """Checks for a loss, also without calls, reclaims memory of abandoned calls, and takes samples.

    These are three tasks: the last two wait for the driver, which may hang.
    """
    release = device.release_finished, "abandoned work of device %d cannot be released: %s", RELEASE_INTERVAL_S
    sample = device.take_sample, "device %d does not report its state: %s", SAMPLE_INTERVAL_S
    tasks.start(f"check of device {device.index}", partial(_check, device))
    tasks.start(f"release on device {device.index}", partial(_ask, device, *release))
    tasks.start(f"sample of device {device.index}", partial(_ask, device, *sample))


async def _check(device: Device) -> float | None:
    try:
        # Works without the driver, which may hang.
        device.check()
    except DeviceLostError:
        return None  # the device has reported it
    return CHECK_INTERVAL_S


async def _ask(device: Device, work: Callable[[], Awaitable[Any]], text: str, interval_s: float) -> float | None:
    """Logs failures of the device; returns None after a loss, which the device has reported."""
    try:
        await work()
    except DeviceLostError:
        return None
    except AclgradError as error:
        log.warning(text, device.index, error.__cause__ or error)
    return interval_s


async def refresh(device: Device) -> None:
    """Takes a new sample that shows what has just ended; if the driver does not answer, the last one stays."""
    with suppress(AclgradError, TimeoutError):  # the watch reports what goes wrong
        await asyncio.wait_for(device.take_sample(), REFRESH_LIMIT_S)


async def trim_memory(device: Device) -> None:
    """Releases free memory of the device and of the process."""
    try:
        await device.trim()
    except AclgradError as error:
        # Calls see the fault too, and end the server if necessary.
        log.warning("device %d cannot give back memory: %s", device.index, error)
    had_some = await asyncio.to_thread(trim_allocator)
    log.debug("pool trimmed, heap %s", "trimmed" if had_some else "without free memory")
