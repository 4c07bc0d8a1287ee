"""The self-test at start: the device computes every operator with every dtype, compared with the definition.

Each thread that serves calls computes them all, because a card's library finds kernels and plans anew in each.
"""

import asyncio
import logging
import time
from collections.abc import Sequence

import aclgrad_native as native
from aclgrad.errors import AclgradError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import OperatorSpec
from aclgrad.products import Product
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.known_cases import Fault, KnownCase, known_cases, text_of, unfit
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.exits import StartError

log = logging.getLogger(__name__)


async def self_test(device: Device, product: Product, timeout_s: float, off: TurnedOff | None = None) -> TurnedOff:
    """Returns what the device computes wrongly or not at all, and what is `off` already, which it is not asked for.

    Raises UnfitDeviceError if the device does not answer in time or is lost, or if no operator is left, and StartError
    if the setup is at fault.
    """
    _check_table(native.operator_symbols())
    # In a thread: it takes a while, and the event loop already answers health checks.
    cases = await asyncio.to_thread(known_cases, product)
    off = TurnedOff(product) if off is None else off
    try:
        await _test(device, cases, timeout_s, off)
        check_that_some_are_left(str(device), off)
    except UnfitDeviceError:
        device.is_up = False
        raise
    return off


def turn_off(off: TurnedOff, device: str, spec: OperatorSpec, dtype: str, fault: Fault) -> None:
    """Turns an operator of a device off, with the dtype alone if the fault says nothing of others, and logs why."""
    off.add(spec, fault.reason, dtype if fault.is_of_dtype else None)
    what = f"{spec.symbol} ({dtype})"
    log.error("%s fails the self-test of %s, which is turned off: %s; %s", device, what, fault.reason, fault.logged)


def check_that_some_are_left(device: str, off: TurnedOff) -> None:
    """Raises UnfitDeviceError, with the reasons, if no operator of the product is left."""
    if any(map(off.served_dtypes, OPERATORS.values())):
        return
    problem = "no operator passed: " + "; ".join(f"{each.name}: {each.reason}" for each in off.messages())
    raise UnfitDeviceError(f"{device} failed the self-test", problem)


def _check_table(symbols: Sequence[str]) -> None:
    """Raises StartError if the native runtime lacks an operator that the table has."""
    missing = ", ".join(spec.symbol for spec in OPERATORS.values() if spec.symbol not in symbols)
    if missing:
        remedy = "install client, native and server of the same version"
        raise StartError(f"aclgrad_native has no row for {missing}, which the operator table has; {remedy}")


async def _test(device: Device, cases: Sequence[KnownCase], timeout_s: float, off: TurnedOff) -> None:
    """Adds the operators that the device fails; nothing of the test stays in its pool."""
    start, passed = time.monotonic(), 0
    for case in cases:
        spec, dtype = case.typed.spec, case.typed.dtype
        if off.has(spec.name, dtype):
            continue
        fault = await case.fault_of(device, timeout_s)
        if fault is None:
            passed += 1
        else:
            turn_off(off, str(device), spec, dtype, fault)
    try:
        async with asyncio.timeout(timeout_s):
            await device.trim()
    except (AclgradError, TimeoutError) as error:
        raise unfit(device, f"it does not take memory back: {text_of(error)}") from error
    if why := device.pinned_refusal:
        log.warning("%s gets no pinned memory, so that copies are slower: %s", device, why)
    took_ms = (time.monotonic() - start) * 1e3
    log.info("%s passed %d of %d self-tests in %.0f ms", device, passed, len(cases), took_ms)
