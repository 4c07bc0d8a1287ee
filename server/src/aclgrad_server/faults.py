"""What can go wrong below the service: at the start, and on a device.

The native runtime sorts ACL and aclnn codes into classes; here each class becomes an error of ours.
"""

from collections.abc import Callable, Mapping
from typing import Final

from aclgrad.errors import AclgradError, DeadlinePassedError, DeviceLostError, DeviceMemoryError, ServerFaultError

RETRY_AFTER_DEVICE_LOSS_S: Final = 5.0
RETRY_AFTER_MEMORY_S: Final = 0.1


class StartError(Exception):
    """The server cannot start; the message says why and what to do about it."""


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
    remedy = "try again, on another server if there is one"
    return DeviceLostError(
        f"the device failed with ACL error {code}; {remedy}",
        remedy=remedy,
        retry_after_s=RETRY_AFTER_DEVICE_LOSS_S,
        metadata=_metadata(code),
    )


def _internal(code: int) -> AclgradError:
    """Also for a call that the library refuses: what passed our validation is legal, so the fault is ours."""
    return ServerFaultError(f"the device library answered ACL error {code}", metadata=_metadata(code))


def _metadata(code: int) -> dict[str, str]:
    return {"acl_error": str(code)}


_ERRORS: Final[Mapping[str, Callable[[int], AclgradError]]] = {
    "timeout": _timeout,
    "memory": _memory,
    "device_lost": _device_lost,
    "request": _internal,
    "internal": _internal,
}
