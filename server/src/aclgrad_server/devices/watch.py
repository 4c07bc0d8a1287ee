"""Watches the devices: losses, abandoned work, what they have in use, and idle memory."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from aclgrad.allocator import trim_allocator
from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.devices.device import Device

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.1
RELEASE_INTERVAL_S: Final = 0.5
SAMPLE_INTERVAL_S: Final = 1.0
REFRESH_LIMIT_S: Final = 0.25


async def watch_device(device: Device) -> None:
    """Checks for lost devices, also when there are no calls, reclaims what abandoned calls held, and takes samples."""
    release = _Repeated(partial(_release, device), RELEASE_INTERVAL_S)
    sample = _Repeated(partial(_sample, device), SAMPLE_INTERVAL_S)
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        try:
            # Does not call the driver, so that it also works if the driver hangs.
            device.check()
        except DeviceLostError:
            return  # the device has reported it
        release.sweep()
        sample.sweep()


class _Repeated:
    """Work that is begun again and again, but never twice at once: it waits for the driver, which may hang."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], interval_s: float) -> None:
        self._work = work
        self._interval_s = interval_s
        self._due = time.monotonic()
        self._task: asyncio.Task[None] | None = None

    def sweep(self) -> None:
        """Begins the work if it is due and has ended. To be called some times a second."""
        if (self._task is None or self._task.done()) and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._interval_s
            self._task = asyncio.ensure_future(self._work())


async def _release(device: Device) -> None:
    with _told(device, "abandoned work of device %d cannot be released: %s"):
        await device.release_finished()


async def _sample(device: Device) -> None:
    with _told(device, "device %d does not tell its state: %s"):
        await device.take_sample()


@contextmanager
def _told(device: Device, text: str) -> Iterator[None]:
    """Logs what went wrong with the device, but for a loss, which the device has reported."""
    try:
        yield
    except DeviceLostError:
        pass
    except AclgradError as error:
        log.warning(text, device.index, error.__cause__ or error)


async def refresh(devices: Sequence[Device]) -> None:
    """Takes new samples, so that they show what has ended just now; a driver that does not answer leaves the last."""
    samples = [asyncio.ensure_future(_sample(device)) for device in devices]
    _, late = await asyncio.wait(samples, timeout=REFRESH_LIMIT_S)
    for each in late:
        each.cancel()


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
