"""Codes of ACL and aclnn, and what a client is told of them."""

import grpc
import pytest

from aclgrad import errors
from aclgrad_native import fault_class
from aclgrad_server.devices.faults import error_of_fault

# code, its name in CANN's rt_error_codes.h or aclnn_status.h
OUT_OF_MEMORY = {
    207001: "MEMORY_ALLOCATION",
    207007: "NO_EVENT_RESOURCE",
    207008: "NO_STREAM_RESOURCE",
    207018: "HBM_OUT_OF_MEMORY",
}
TIMEOUT = {
    107019: "WAIT_TIMEOUT",
    107020: "TASK_TIMEOUT",
    507012: "REPORT_TIMEOUT",
    507046: "STREAM_SYNC_TIMEOUT",
    507047: "EVENT_SYNC_TIMEOUT",
}
LOST = {
    107022: "DEVICE_TASK_ABORT",
    107023: "STREAM_ABORT",
    507000: "INTERNAL_ERROR",
    507001: "TS_ERROR",
    507010: "LOST_HEARTBEAT",
    507011: "MODEL_EXECUTE",
    507013: "system DMA",
    507014: "AICORE_TIMEOUT",
    507015: "AICORE_EXCEPTION",
    507016: "AICORE_TRAP_EXCEPTION",
    507017: "AICPU_TIMEOUT",
    507018: "AICPU_EXCEPTION",
    507019: "AI CPU response",
    507020: "AI CPU response",
    507033: "DEV_SETUP_ERROR",
    507034: "VECTOR_CORE_TIMEOUT",
    507035: "VECTOR_CORE_EXCEPTION",
    507036: "VECTOR_CORE_TRAP_EXCEPTION",
    507042: "core trap: overflow",
    507043: "core trap: overflow",
    507044: "core trap: overflow",
    507045: "core trap: overflow",
    507048: "FFTS+ timeout",
    507049: "FFTS+ exception",
    507050: "FFTS+ trap",
    507053: "DEVICE_MEM_ERROR",
    507054: "HBM_MULTI_BIT_ECC_ERROR",
    507055: "SUSPECT_MEM",
    507056: "LINK_ERROR",
    507057: "SUSPECT_REMOTE",
    507899: "DRV_INTERNAL_ERROR",
    507900: "AICPU_INTERNAL_ERROR",
    507901: "SOCKET_CLOSE",
    507902: "AI CPU response",
    507904: "HCCL",
    507914: "L3 port",
    507915: "CCU",
    507916: "CCU",
}
FAULT = dict.fromkeys(
    [
        *(100000, 107000, 107001, 107002, 107003, 107008, 107017),
        *(161001, 161002, 361001, 561000, 561103),
        *(207000, 207003, 207004, 207005, 207006, 207016, 207017),
        *range(507002, 507010),
        *(507051, 507052, 507999),
    ],
    "misuse, start, state or unknown",
)
ROWS = [
    (code, kind, status)
    for codes, kind, status in (
        (OUT_OF_MEMORY, errors.DeviceMemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED),
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
