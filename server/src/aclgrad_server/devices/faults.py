"""What can go wrong below the service: at the start, and on a device.

The native runtime sorts ACL and aclnn codes into classes; here each class becomes an error of ours.
"""

from collections.abc import Callable, Mapping
from typing import Final

import aclgrad_native
from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    InvalidFieldError,
    LimitExceededError,
    ServerFaultError,
    Violation,
)
from aclgrad_server.plan import OperatorPlan

RETRY_AFTER_DEVICE_LOSS_S: Final = 5.0
RETRY_AFTER_MEMORY_S: Final = 0.1


class StartError(Exception):
    """The server cannot start; the message says why and what to do about it."""


def error_of_native(error: Exception, plan: OperatorPlan | None = None) -> AclgradError:
    """Returns our error for one of the native runtime, with that as its cause, for the log; re-raises any other."""
    ours: AclgradError
    if isinstance(error, aclgrad_native.OutOfMemoryError):
        ours = _out_of_memory(error, plan.size_bytes if plan else 0)
    elif isinstance(error, aclgrad_native.AclError):
        ours = error_of_fault(error.fault, error.code)
    elif isinstance(error, aclgrad_native.InvalidValueError) and plan is not None:
        ours = _invalid_value(error, plan)
    else:
        raise error
    ours.__cause__ = error
    return ours


def error_of_fault(fault: str, code: int) -> AclgradError:
    """Returns what a client is told of an ACL code of this class; the library's own text stays in the server's log.

    The classes, and which code belongs to which, are those of `native/runtime/fault_class.h`.
    """
    return _ERRORS.get(fault, _internal)(code)


def _timeout(code: int) -> AclgradError:
    remedy = "allow more time"
    return DeadlinePassedError(f"the device was not done in time; {remedy}", remedy=remedy, metadata=_metadata(code))


def _memory(code: int) -> AclgradError:
    remedy = "try again when other calls are done, or send a smaller tensor"
    return DeviceMemoryError(
        f"the device has not enough free memory; {remedy}",
        remedy=remedy,
        retry_after_s=RETRY_AFTER_MEMORY_S,
        metadata=_metadata(code),
    )


def _device_lost(code: int) -> AclgradError:
    return device_lost(_metadata(code))


def device_lost(metadata: Mapping[str, str]) -> DeviceLostError:
    """Returns the error of a call whose device is lost; the metadata has the ACL code."""
    remedy = "try again, on another server if there is one"
    return DeviceLostError(
        f"the device failed with ACL error {metadata.get('acl_error')}; {remedy}",
        remedy=remedy,
        retry_after_s=RETRY_AFTER_DEVICE_LOSS_S,
        metadata=metadata,
    )


def _internal(code: int) -> AclgradError:
    """Also for a call that the library refuses: what passed our validation is legal, so the fault is ours."""
    return ServerFaultError(f"the device library answered ACL error {code}", metadata=_metadata(code))


def _invalid_value(error: aclgrad_native.InvalidValueError, plan: OperatorPlan) -> AclgradError:
    field = f"inputs[{plan.inputs[error.input].name}].data"
    if error.work is None:
        return InvalidFieldError.of(Violation(field, str(error), "send values in that range"))
    problem = f"ask for {error.work:.3g} steps of work and the limit is {error.limit:.0f}"
    remedy = "send fewer or smaller boxes or a lower sampling_ratio, or raise --max-roi-work"
    return LimitExceededError.of(Violation(field, problem, remedy))


def _out_of_memory(error: aclgrad_native.OutOfMemoryError, size_bytes: int) -> AclgradError:
    problem = (
        f"an allocation of {error.size_bytes} bytes does not fit: {error.allocated_bytes} of the pool's "
        f"{error.limit_bytes} bytes are in use"
    )
    metadata = {"size_bytes": str(error.size_bytes), "limit": str(error.limit_bytes)}
    if max(error.size_bytes, size_bytes) > error.limit_bytes:
        remedy = "send smaller tensors, or raise --pool-bytes (ACLGRAD_POOL_BYTES) of the server"
        return LimitExceededError.of(Violation("call", f"cannot run: {problem}", remedy), metadata=metadata)
    remedy = "try again later"
    return DeviceMemoryError(
        f"{problem}; {remedy}", remedy=remedy, retry_after_s=RETRY_AFTER_MEMORY_S, metadata=metadata
    )


def _metadata(code: int) -> dict[str, str]:
    return {"acl_error": str(code)}


_ERRORS: Final[Mapping[str, Callable[[int], AclgradError]]] = {
    "timeout": _timeout,
    "memory": _memory,
    "device_lost": _device_lost,
    "request": _internal,
    "internal": _internal,
}
