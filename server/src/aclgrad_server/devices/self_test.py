"""The self-test at start: the device computes every operator with every dtype, compared with the definition.

Each thread that serves calls computes them all, because a card's library finds kernels and plans anew in each.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import aclgrad_native as native
from aclgrad import reference
from aclgrad.errors import AclgradError, DeviceLostError, DeviceMemoryError, LimitExceededError
from aclgrad.operators.cases import TypedCase, arrays_of, first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.validation import MAX_INT64
from aclgrad.products import Product
from aclgrad.tensors import array_of_view, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.planning import OperatorPlan, check_size, plan_call
from aclgrad_server.exits import StartError

log = logging.getLogger(__name__)

_OF_THE_CARD: Final = (DeviceLostError, DeviceMemoryError, TimeoutError)
"""Errors after which a device is not asked for another operator. DeadlinePassedError is a TimeoutError."""
_DRIVER_GRACE_S: Final = 1.0

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """A call with a known answer."""

    typed: TypedCase
    plan: OperatorPlan
    truths: tuple[Array, ...]
    """One for each output."""

    @classmethod
    def of(cls, typed: TypedCase, product: Product) -> "Sample":
        arrays = typed.arrays()
        views = tuple(view_of_array(name, array) for name, array in arrays.items())
        plan = plan_call(OperatorCall(typed.spec.name, views, typed.case.attributes), product, MAX_INT64)
        return cls(typed, plan, arrays_of(reference.define(typed.spec.name, arrays, typed.case.attributes)))

    def fault_of(self, reply: bytes, product: Product) -> str | None:
        """Returns the problem of a reply, or None if every element is within the operator's tolerance."""
        tolerance = self.typed.spec.tolerance(product, self.typed.dtype)
        for view, truth in zip(decode_response(reply), self.truths, strict=True):
            gradient = array_of_view(view)
            with np.errstate(invalid="ignore"):
                # Written so that a NaN is out of tolerance.
                outside = ~(np.abs(gradient.astype(truth.dtype) - truth) <= tolerance.limit(truth))
            if outside.any():
                cell = tuple(map(int, np.argwhere(outside)[0]))
                values = f"{gradient[cell]} at {cell} instead of {truth[cell]:.6g}"
                of = f" of {view.name}" if len(self.truths) > 1 else ""
                return f"{int(outside.sum())} of {outside.size} elements{of} are wrong, the first is {values}"
        return None


async def self_test(device: Device, product: Product, timeout_s: float) -> Mapping[str, str]:
    """Returns the operators that the device computes wrongly or not at all, each with a reason that clients may read.

    One dtype that is wrong turns its operator off. Raises UnfitDeviceError if the device does not answer in time or is
    lost, or if no operator is left, and StartError if the setup is at fault.
    """
    _check_table(native.operator_symbols())
    # In a thread: definitions are slow, and the event loop already answers health checks.
    samples = await asyncio.to_thread(_samples_of, product)
    try:
        off = await _test(device, samples, product, timeout_s)
        if len(off) == len({sample.typed.spec.name for sample in samples}):
            raise _unfit(device, "no operator passed: " + "; ".join(f"{name}: {why}" for name, why in off.items()))
    except UnfitDeviceError:
        device.is_up = False
        raise
    return off


def _samples_of(product: Product) -> list[Sample]:
    """Returns the first case of every operator of the product, with every dtype."""
    return [Sample.of(typed, product) for typed in first_cases(product, every_dtype=True)]


def _check_table(symbols: Sequence[str]) -> None:
    """Raises StartError if the native runtime lacks an operator that the table has."""
    missing = ", ".join(spec.symbol for spec in OPERATORS.values() if spec.symbol not in symbols)
    if missing:
        remedy = "install client, native and server of the same version"
        raise StartError(f"aclgrad_native has no row for {missing}, which the operator table has; {remedy}")


async def _test(device: Device, samples: Sequence[Sample], product: Product, timeout_s: float) -> dict[str, str]:
    """Returns the operators that the device fails; nothing of the test stays in its pool."""
    name, start = _name(device), time.monotonic()
    off: dict[str, str] = {}
    passed = 0
    for sample in samples:
        spec, dtype = sample.typed.spec, sample.typed.dtype
        try:
            check_size(sample.plan.size_bytes, device.pool_limit_bytes)
        except LimitExceededError as error:
            raise StartError(f"{name} has no room for {spec.symbol}: {error}") from error
        try:
            # The device itself ends the wait for a kernel at the deadline, but a driver that hangs never returns.
            async with asyncio.timeout(timeout_s + _DRIVER_GRACE_S):
                contents, deadline = sample.plan.contents(()), time.monotonic() + timeout_s
                replies = await device.execute_on_each_thread(sample.plan, contents, deadline)
            faults = (sample.fault_of(reply, product) for reply in set(replies))
            fault = next(filter(None, faults), None)
            why = f"device {device.index} computes {dtype} wrongly"
        except _OF_THE_CARD as error:
            raise _unfit(device, f"it does not answer {spec.symbol} ({dtype}): {_text(error)}") from error
        except native.LibraryError as error:
            fault, why = str(error), "the server's device library lacks it"
        except AclgradError as error:
            fault, why = _text(error), f"device {device.index} fails with {dtype}: {error.message}"
        except Exception as error:
            # Of the runtime: a library that makes no tensor, or does not know the dtype.
            fault, why = repr(error), f"device {device.index} fails with {dtype}"
        if fault is None:
            passed += 1
            continue
        off.setdefault(spec.name, why)
        log.error("%s fails the self-test of %s (%s), which is turned off: %s", name, spec.symbol, dtype, fault)
    try:
        async with asyncio.timeout(timeout_s):
            await device.trim()
    except (AclgradError, TimeoutError) as error:
        raise _unfit(device, f"it does not take memory back: {_text(error)}") from error
    took_ms = (time.monotonic() - start) * 1e3
    log.info("%s passed %d of %d self-tests in %.0f ms", name, passed, len(samples), took_ms)
    return off


def _name(device: Device) -> str:
    return f"device {device.index} ({device.soc_name})"


def _unfit(device: Device, problem: str) -> UnfitDeviceError:
    return UnfitDeviceError(f"{_name(device)} failed the self-test", problem)


def _text(error: Exception) -> str:
    """Returns the log's text for an error: the library's own words, if there are any, which no client sees."""
    return str(error.__cause__ or error) or "its driver does not return"
