"""Codes of ACL and aclnn, and what a client is told of them."""

from types import SimpleNamespace

import grpc
import pytest

import aclgrad_native as native
from aclgrad import errors
from aclgrad_native import fault_class
from aclgrad_server.devices.faults import error_of_fault, error_of_native

# By CANN's rt_error_codes.h and aclnn_status.h.
OUT_OF_MEMORY = (207001, 207018)
"""Memory, HBM."""
OUT_OF_STREAMS = (207007, 207008)
"""Events, streams."""
TIMEOUT = (107019, 107020, 507012, 507046, 507047)
"""Of a wait, a task, a report, and the synchronization of a stream or event."""
LOST = (
    *(107022, 107023),  # a task or a stream was aborted
    *(507000, 507001, 507010, 507011, 507013),  # internal, task scheduler, heartbeat, model, system DMA
    *range(507014, 507021),  # AI core, AI CPU: timeouts, exceptions, traps, responses
    *(507033, 507034, 507035, 507036),  # set-up of the device, vector core
    *range(507042, 507046),  # traps of a core: overflow
    *(507048, 507049, 507050),  # FFTS+
    *range(507053, 507058),  # memory, ECC, links
    *range(507899, 507903),  # driver, AI CPU, sockets
    *(507904, 507914, 507915, 507916),  # HCCL, ports, CCU
)
FAULT = (
    *(100000, 107000, 107001, 107002, 107003, 107008, 107017),
    *(161001, 161002, 361001, 561000, 561103),
    *(207000, 207003, 207004, 207005, 207006, 207016, 207017),
    *range(507002, 507010),
    *(507051, 507052, 507999),
)
"""Misuse, start, state, or unknown."""
ROWS = [
    (code, kind, status)
    for codes, kind, status in (
        (OUT_OF_MEMORY, errors.DeviceMemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (OUT_OF_STREAMS, errors.ServerBusyError, grpc.StatusCode.RESOURCE_EXHAUSTED),
        (TIMEOUT, errors.DeadlinePassedError, grpc.StatusCode.DEADLINE_EXCEEDED),
        (LOST, errors.DeviceLostError, grpc.StatusCode.UNAVAILABLE),
        (FAULT, errors.ServerFaultError, grpc.StatusCode.INTERNAL),
    )
    for code in codes
]


@pytest.mark.parametrize(("code", "kind", "status"), ROWS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_code_has_its_error(code: int, kind: type[errors.AclgradError], status: grpc.StatusCode) -> None:
    error = error_of_fault(fault_class(code), code)
    assert type(error) is kind
    assert error.code is status
    assert error.metadata == {"acl_error": str(code)}
    assert (error.retry_after_s is not None) == isinstance(error, errors.RetryableError)
    assert bool(error.remedy) == (kind is not errors.ServerFaultError)


@pytest.mark.parametrize(
    ("allocation", "call", "kind"),
    [(10, 90, errors.DeviceMemoryError), (10, 101, errors.LimitExceededError), (101, 101, errors.LimitExceededError)],
)
def test_only_a_call_that_may_fit_later_is_to_be_tried_again(allocation: int, call: int, kind: type) -> None:
    full = native.OutOfMemoryError("full")
    full.size_bytes, full.allocated_bytes, full.limit_bytes = allocation, 95, 100
    error = error_of_native(full, SimpleNamespace(size_bytes=call))  # type: ignore[arg-type]
    assert type(error) is kind
    assert (error.retry_after_s is not None) == (kind is errors.DeviceMemoryError)
