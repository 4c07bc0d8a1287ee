"""What can go wrong below the service: at the start, and on a device.

The table from ACL and aclnn codes to errors of ours has the codes of CANN's rt_error_codes.h and op_errno.h.
"""

from typing import Final

from aclgrad.errors import AclgradError, DeadlinePassedError, DeviceLostError, DeviceMemoryError, ServerFaultError

RETRY_AFTER_DEVICE_LOSS_S: Final = 5.0
RETRY_AFTER_MEMORY_S: Final = 0.1

_OUT_OF_MEMORY: Final = frozenset({207001, 207018})
_WAIT_TIMEOUT: Final = frozenset({107019, 507046, 507047})
_DEVICE_LOST: Final = frozenset(
    {
        *(507010, 507011),  # lost heartbeat, model execute
        *(507014, 507015, 507016, 507017, 507018),  # AI Core and AI CPU timeout, exception, trap
        507033,  # device setup
        *(507034, 507035, 507036),  # vector core timeout, exception, trap
        *(507053, 507054, 507055, 507056, 507057),  # memory, ECC, suspect memory, link, suspect remote
        *(507899, 507900, 507901),  # driver, AI CPU, socket closed
    }
)


class StartError(Exception):
    """The server cannot start; the message says why and what to do about it."""


def error_of_code(code: int) -> AclgradError:
    """Returns what a client is told of an ACL code; the library's own text stays in the server's log."""
    metadata = {"acl_error": str(code)}
    if code in _WAIT_TIMEOUT:
        remedy = "allow more time"
        return DeadlinePassedError(f"the device was not done in time; {remedy}", remedy=remedy, metadata=metadata)
    if code in _OUT_OF_MEMORY:
        remedy = "try again when other calls are done, or send a smaller tensor"
        return DeviceMemoryError(
            f"the device has not enough free memory; {remedy}",
            remedy=remedy,
            retry_after_s=RETRY_AFTER_MEMORY_S,
            metadata=metadata,
        )
    if code in _DEVICE_LOST:
        remedy = "try again, on another server if there is one"
        return DeviceLostError(
            f"the device failed with ACL error {code}; {remedy}",
            remedy=remedy,
            retry_after_s=RETRY_AFTER_DEVICE_LOSS_S,
            metadata=metadata,
        )
    return ServerFaultError(f"the device library answered ACL error {code}", metadata=metadata)
