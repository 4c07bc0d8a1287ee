"""The errors below the service: turns the native runtime's exceptions and fault classes into errors of ours."""

from typing import Final

import aclgrad_native as native
from aclgrad.errors import (
    AclgradError,
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    InvalidFieldError,
    LimitExceededError,
    ServerBusyError,
    ServerFaultError,
)
from aclgrad.operators.values import remedy_of
from aclgrad_server.devices.plan import StepPlan

RETRY_AFTER_DEVICE_LOSS_S: Final = 1.0  # a sibling answers at once, and clients wait for a restarting server
RETRY_AFTER_MEMORY_S: Final = 0.1
RETRY_AFTER_STREAMS_S: Final = 0.1

_FAULTS: Final[dict[str, tuple[type[AclgradError], str, str | None, float | None]]] = {
    "timeout": (DeadlinePassedError, "the device was not done in time", "allow more time", None),
    "not_begun": (
        DeadlinePassedError,
        "the deadline passed before the device could begin",
        "allow more time, or call a server with less to do",
        None,
    ),
    "memory": (
        DeviceMemoryError,
        "the device has not enough free memory",
        "try again when other calls are done, or send a smaller tensor",
        RETRY_AFTER_MEMORY_S,
    ),
    "streams": (
        ServerBusyError,
        "the device has no stream left: all processes on it use them",
        "try again later, on a server with fewer processes on its device, or with a smaller --streams",
        RETRY_AFTER_STREAMS_S,
    ),
    "device_lost": (
        DeviceLostError,
        "the device failed with ACL error {code}",
        "try again, on another server if there is one",
        RETRY_AFTER_DEVICE_LOSS_S,
    ),
    # Also if the library refuses a call that passed our validation: the fault is ours, or the library lacks the
    # operator, but never the client's.
    "internal": (ServerFaultError, "the device library answered ACL error {code}", None, None),
}


class UnfitDeviceError(Exception):
    """The device cannot be used. The server stays up but takes no calls: a new process would find the same card.

    Anybody may read `summary`, which names the card; the message is for the log and says more.
    """

    def __init__(self, summary: str, problem: str) -> None:
        super().__init__(f"{summary}: {problem}")
        self.summary, self.problem = summary, problem


class WorkspaceShortageError(ServerBusyError):
    """The operator needs a workspace of `size_bytes`, and its call, which has not begun, claimed less."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(
            f"the operator needs a workspace of {size_bytes} bytes, which other calls have now",
            remedy=f"try again in {RETRY_AFTER_MEMORY_S} s",
            retry_after_s=RETRY_AFTER_MEMORY_S,
            metadata={"workspace_bytes": str(size_bytes)},
        )
        self.size_bytes = size_bytes


def error_of_fault(fault: str, code: int | str) -> AclgradError:
    """Returns the error for an ACL code of this class (`native/runtime/fault_class.h`)."""
    kind, problem, remedy, retry_after_s = _FAULTS.get(fault, _FAULTS["internal"])
    metadata = {"acl_error": str(code)}
    return kind(problem.format(code=code), remedy=remedy, retry_after_s=retry_after_s, metadata=metadata)


def error_of_native(error: Exception, plan: StepPlan | None = None) -> AclgradError:
    """Returns our error for a native runtime error, which becomes its cause in the log; re-raises any other."""
    ours: AclgradError
    if isinstance(error, native.WorkspaceError) and plan is not None:
        plan.workspace.size_bytes = max(plan.workspace.size_bytes, error.size_bytes)
        ours = WorkspaceShortageError(error.size_bytes)
    elif isinstance(error, native.OutOfMemoryError):
        ours = _out_of_memory(error, plan.size_bytes if plan else 0)
    elif isinstance(error, native.AclError):
        ours = error_of_fault(error.fault, error.code)
    elif isinstance(error, native.InvalidValueError) and plan is not None:
        ours = _invalid_value(error, plan)
    else:
        raise error
    ours.__cause__ = error
    return ours


def _invalid_value(error: native.InvalidValueError, plan: StepPlan) -> AclgradError:
    field = f"inputs[{plan.inputs[error.input].name}].data"
    if error.work is None:
        return InvalidFieldError.at(field, str(error), remedy_of(plan.rules[error.input]))
    problem = f"ask for {error.work:.3g} steps of work and the limit is {error.limit:.0f}"
    remedy = "send fewer or smaller boxes or a lower sampling_ratio"
    return LimitExceededError.at(field, problem, remedy)


def _out_of_memory(error: native.OutOfMemoryError, size_bytes: int) -> AclgradError:
    problem = (
        f"an allocation of {error.size_bytes} bytes does not fit: {error.allocated_bytes} of the pool's "
        f"{error.limit_bytes} bytes are in use"
    )
    metadata = {"size_bytes": str(error.size_bytes), "limit": str(error.limit_bytes)}
    if max(error.size_bytes, size_bytes) > error.limit_bytes:
        remedy = "send smaller tensors, or raise --pool-bytes (ACLGRAD_POOL_BYTES) of the server"
        return LimitExceededError.at("call", f"cannot run: {problem}", remedy, metadata)
    return DeviceMemoryError(problem, remedy="try again later", retry_after_s=RETRY_AFTER_MEMORY_S, metadata=metadata)
