"""Looks after the devices beside the calls: the first answer, losses, abandoned work, and memory that lies idle."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import aclgrad_native
from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad.operators.cases import typed_cases
from aclgrad.operators.validation import MAX_INT64
from aclgrad.products import Product
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import StartError
from aclgrad_server.plan import check_size, plan_call

log = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 0.1
RELEASE_INTERVAL_S: Final = 0.5

# Freed memory stays mapped, because page faults of fresh memory are what a large message costs most; IdleTrim gives it
# back. One heap, because only the first one can hold blocks of more than 64 MiB, and each thread has a cache of small
# ones. Measured with glibc 2.36 on two cores: 1.4x the calls/s at 6.4 MB and 2x at 100 MB; two heaps lose a third of it
# at 100 MB; a threshold of 32 MiB (the most before glibc 2.35) gives most of the gain at 6.4 MB and none at 100 MB.
MMAP_THRESHOLD_BYTES: Final = 2**30
TRIM_THRESHOLD_BYTES: Final = 2**31 - 1
TOP_PAD_BYTES: Final = 64 * 2**20
ARENA_LIMIT: Final = 1


def tune_allocator() -> None:
    """Sets how the C library keeps freed memory; to be called before other threads begin."""
    failures = aclgrad_native.tune_allocator(
        mmap_threshold_bytes=MMAP_THRESHOLD_BYTES,
        trim_threshold_bytes=TRIM_THRESHOLD_BYTES,
        top_pad_bytes=TOP_PAD_BYTES,
        arena_limit=ARENA_LIMIT,
    )
    for failure in failures:
        log.warning("large calls may be slower: %s", failure)


async def warm_up(device: Device, product: Product, timeout_s: float) -> None:
    """Runs the first case of the table on the device, within its pool; raises StartError if it does not answer."""
    start = time.monotonic()
    typed = next(typed_cases(product))
    views = tuple(view_of_array(name, array) for name, array in typed.arrays().items())
    plan = plan_call(OperatorCall(typed.spec.name, views, typed.case.attributes), product, MAX_INT64)
    try:
        check_size(plan.size_bytes, device.pool_limit_bytes)
        prepared = plan.with_prepared(device.prepare(plan))
        await device.execute(prepared, prepared.contents(()), start + timeout_s, lambda: None)
    except AclgradError as error:
        # The library's own words, which no client sees, tell the operator more.
        cause = error.__cause__ and "; ".join(filter(None, (str(error.__cause__), error.remedy)))
        raise StartError(f"device {device.index} does not answer {plan.spec.symbol}: {cause or error}") from error
    log.info("device %d answered %s in %.0f ms", device.index, plan.spec.symbol, (time.monotonic() - start) * 1e3)


async def watch_device(device: Device) -> None:
    """Asks whether a device is lost, also while no call comes, and reclaims what abandoned calls held."""
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
    """Trims the devices' pools and the heap once when no call came for one to two times `idle_s`; 0: never."""

    def __init__(
        self,
        activity: Callable[[], int],
        is_busy: Callable[[], bool],
        devices: Sequence[Device],
        idle_s: float,
        trim_heap: Callable[[], bool] = aclgrad_native.trim_allocator,
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
