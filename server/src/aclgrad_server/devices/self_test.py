"""The self-test at start: the device computes every operator with every dtype, compared with the definition.

Each serving thread runs them all, because a card's library looks up kernels and plans in each thread anew.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

import aclgrad_native as native
from aclgrad.errors import AclgradError, DeviceLostError, DeviceMemoryError, LimitExceededError
from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.spec import Tolerance
from aclgrad.operators.validation import MAX_INT64
from aclgrad.products import Product
from aclgrad.tensors import array_of_view, view_of_array
from aclgrad.tolerances import tolerance_of
from aclgrad.truths import truths_of
from aclgrad.wire.messages import OperatorCall, decode_response
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.plan import Limits, StepPlan, plan_call
from aclgrad_server.devices.planning import check_size
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.exits import StartError

log = logging.getLogger(__name__)

_OF_THE_CARD: Final = (DeviceLostError, DeviceMemoryError, TimeoutError)
"""Errors that end the self-test of a device. DeadlinePassedError is a TimeoutError."""
_DRIVER_GRACE_S: Final = 1.0
_REFUSED: Final = "refused"  # class of the codes for a missing operator or dtype
_MISSING: Final = "install CANN's operator package for this card, or set ASCEND_CUSTOM_OPP_PATH before the start"

Array = np.ndarray[Any, Any]


class Fault(NamedTuple):
    """An operator's fault on a device: in words for clients, and for the log, with the library's words.

    A refusal by the library concerns one dtype; any other fault casts doubt on the others, too.
    """

    reason: str
    logged: str
    is_of_dtype: bool = False


@dataclass(frozen=True, slots=True)
class KnownCase:
    typed: TypedCase
    plan: StepPlan
    contents: Sequence[memoryview | None]
    """The bytes of each input of the plan."""
    truths: tuple[Array, ...]
    """The truth of each returned output."""
    tolerance: Tolerance

    @classmethod
    def of(cls, typed: TypedCase, product: Product) -> "KnownCase":
        arrays = typed.arrays()
        views = tuple(view_of_array(name, array) for name, array in arrays.items())
        call = OperatorCall(typed.spec.name, views, typed.case.attributes, outputs=tuple(typed.outputs))
        plan = plan_call(call, product, Limits(MAX_INT64))
        tolerance = tolerance_of(typed.spec, product, arrays, typed.case.attributes)
        given = {each.name: each.data for each in views}
        contents = [given.get(each.name) for each in plan.inputs]
        return cls(typed, plan, contents, truths_of(typed, arrays), tolerance)

    def __str__(self) -> str:
        return f"{self.typed.spec.symbol} ({self.typed.dtype})"

    async def fault_of(self, device: Device, timeout_s: float) -> Fault | None:
        """Runs the call on each thread of the device, and returns its fault or None.

        Raises UnfitDeviceError if the device does not answer in time or is lost, and StartError if its pool is small.
        """
        try:
            check_size(self.plan.size_bytes, device.pool_limit_bytes)
        except LimitExceededError as error:
            raise StartError(f"{device} has no room for {self.typed.spec.symbol}: {error}") from error
        name, dtype = f"device {device.index}", self.typed.dtype
        try:
            # The device ends the wait for a kernel at the deadline, but a hung driver never returns.
            async with asyncio.timeout(timeout_s + _DRIVER_GRACE_S):
                deadline = time.monotonic() + timeout_s
                replies = await device.execute_on_each_thread(self.plan, self.contents, deadline)
        except _OF_THE_CARD as error:
            raise _unfit(device, f"it does not answer {self}: {_text_of(error)}") from error
        except native.LibraryError as error:
            return Fault(f"the server's device library lacks it; {_MISSING}", str(error))
        except AclgradError as error:
            if isinstance(error.__cause__, native.AclError) and error.__cause__.fault == _REFUSED:
                return Fault(f"{name} refuses it ({error.__cause__.code}); {_MISSING}", _text_of(error), True)
            return Fault(f"{name} fails with {dtype}: {error.message}", _text_of(error))
        except Exception as error:
            # From the runtime: the library makes no tensor, or does not know the dtype.
            return Fault(f"{name} fails with {dtype}", repr(error))
        problem = next(filter(None, map(self._problem_of, set(replies))), None)
        return None if problem is None else Fault(f"{name} computes {dtype} wrongly", problem)

    def _problem_of(self, reply: bytes) -> str | None:
        """Returns the fault of a reply, or None if every element is within the operator's tolerance."""
        for view, truth in zip(decode_response(reply), self.truths, strict=True):
            gradient = array_of_view(view)
            with np.errstate(invalid="ignore"):
                # In this form a NaN is out of tolerance.
                outside = ~(np.abs(gradient.astype(truth.dtype) - truth) <= self.tolerance.of(view.name).limit(truth))
            if outside.any():
                cell = tuple(map(int, np.argwhere(outside)[0]))
                values = f"{gradient[cell]} at {cell} instead of {truth[cell]:.6g}"
                of = f" of {view.name}" if len(self.truths) > 1 else ""
                return f"{int(outside.sum())} of {outside.size} elements{of} are wrong, the first is {values}"
        return None


def known_cases(product: Product) -> list[KnownCase]:
    """Returns the first case of every operator of the product, with every dtype."""
    return [KnownCase.of(typed, product) for typed in first_cases(product, every_dtype=True)]


async def self_test(device: Device, product: Product, timeout_s: float, off: TurnedOff | None = None) -> TurnedOff:
    """Returns the operators that fail on the device, and those already `off`, which are not tested.

    Raises UnfitDeviceError if the device does not answer in time or is lost, or if no operator is left, and StartError
    if the setup is at fault.
    """
    _check_table(native.operator_symbols())
    # In a thread: it takes a while, and the event loop already answers health checks.
    cases = await asyncio.to_thread(known_cases, product)
    off = TurnedOff(product) if off is None else off
    try:
        await _test(device, cases, timeout_s, off)
        if not any(map(off.served_dtypes, OPERATORS.values())):
            reasons = "; ".join(f"{each.name}: {each.reason}" for each in off.messages())
            raise _unfit(device, f"no operator passed: {reasons}")
    except UnfitDeviceError:
        device.is_up = False
        raise
    return off


def turn_off(off: TurnedOff, device: str, case: TypedCase, fault: Fault) -> None:
    """Turns off an operator, or only the dtype if the fault does not concern others, and logs why."""
    off.add(case.spec, fault.reason, case.dtype if fault.is_of_dtype else None)
    what = f"{case.spec.symbol} ({case.dtype})"
    log.error("%s fails the self-test of %s, which is turned off: %s; %s", device, what, fault.reason, fault.logged)


def _check_table(symbols: Sequence[str]) -> None:
    """Raises StartError if the native runtime lacks an operator that the table has."""
    missing = ", ".join(spec.symbol for spec in OPERATORS.values() if spec.symbol not in symbols)
    if missing:
        remedy = "install client, native and server of the same version"
        raise StartError(f"aclgrad_native has no row for {missing}, which the operator table has; {remedy}")


async def _test(device: Device, cases: Sequence[KnownCase], timeout_s: float, off: TurnedOff) -> None:
    """Adds the operators that fail on the device, and empties its pool afterwards."""
    start, passed = time.monotonic(), 0
    for case in cases:
        if off.has(case.typed.spec.name, case.typed.dtype):
            continue
        fault = await case.fault_of(device, timeout_s)
        if fault is None:
            passed += 1
        else:
            turn_off(off, str(device), case.typed, fault)
    try:
        async with asyncio.timeout(timeout_s):
            await device.trim()
    except (AclgradError, TimeoutError) as error:
        raise _unfit(device, f"it does not take memory back: {_text_of(error)}") from error
    if why := device.pinned_refusal:
        log.warning("%s gets no pinned memory, so that copies are slower: %s", device, why)
    took_ms = (time.monotonic() - start) * 1e3
    log.info("%s passed %d of %d self-tests in %.0f ms", device, passed, len(cases), took_ms)


def _unfit(device: Device, problem: str) -> UnfitDeviceError:
    return UnfitDeviceError(f"{device} failed the self-test", problem)


def _text_of(error: Exception) -> str:
    """Returns the log's text for an error: the library's words, if any, which no client sees."""
    return str(error.__cause__ or error) or "its driver does not return"
