"""Gradients from an Ascend card that is not in your machine.

import aclgrad

with aclgrad.Client("127.0.0.1:50051") as client:
    gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from aclgrad.errors import (
    AccessDeniedError,
    AclgradError,
    CallCancelledError,
    CallCutError,
    ClientTooSlowError,
    ConnectionLostError,
    DeadlinePassedError,
    DeviceLostError,
    DeviceMemoryError,
    InputValuesRequiredError,
    InvalidFieldError,
    InvalidSettingError,
    LimitExceededError,
    MalformedRequestError,
    MessageTooLargeError,
    MethodNotServedError,
    NotAuthenticatedError,
    OperatorNotSupportedError,
    OperatorTurnedOffError,
    PermissionDeniedError,
    RequestError,
    RetryableError,
    ServerBusyError,
    ServerDrainingError,
    ServerFaultError,
    ServerUnreachableError,
    SharedMemoryUnavailableError,
    TlsError,
    UnknownOperatorError,
    Violation,
    WrongEventLoopError,
)

if TYPE_CHECKING:
    from aclgrad import masks, reference
    from aclgrad._aio import AsyncClient
    from aclgrad._client import Client
    from aclgrad._descriptions import AttributeDescription, InputDescription, OperatorDescription, OutputDescription
    from aclgrad._reports import CallReport
    from aclgrad._request_ids import request_id
    from aclgrad._server_status import DeviceStatus, Limits, PoolStatus, QueueStatus, ServerStatus
    from aclgrad._timeouts import DEFAULT, Timeout
    from aclgrad.allocator import tune_allocator
    from aclgrad.operators.spec import AttributeKind
    from aclgrad.products import Product
    from aclgrad.tensors import DType

__all__ = [
    "DEFAULT",
    "AccessDeniedError",
    "AclgradError",
    "AsyncClient",
    "AttributeDescription",
    "AttributeKind",
    "CallCancelledError",
    "CallCutError",
    "CallReport",
    "Client",
    "ClientTooSlowError",
    "ConnectionLostError",
    "DType",
    "DeadlinePassedError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DeviceStatus",
    "InputDescription",
    "InputValuesRequiredError",
    "InvalidFieldError",
    "InvalidSettingError",
    "LimitExceededError",
    "Limits",
    "MalformedRequestError",
    "MessageTooLargeError",
    "MethodNotServedError",
    "NotAuthenticatedError",
    "OperatorDescription",
    "OperatorNotSupportedError",
    "OperatorTurnedOffError",
    "OutputDescription",
    "PermissionDeniedError",
    "PoolStatus",
    "Product",
    "QueueStatus",
    "RequestError",
    "RetryableError",
    "ServerBusyError",
    "ServerDrainingError",
    "ServerFaultError",
    "ServerStatus",
    "ServerUnreachableError",
    "SharedMemoryUnavailableError",
    "Timeout",
    "TlsError",
    "TurnedOffOperator",
    "UnknownOperatorError",
    "Violation",
    "WrongEventLoopError",
    "masks",
    "reference",
    "request_id",
    "tune_allocator",
]

__version__ = version("aclgrad")

_NAMES: Final = {
    "_aio": ("AsyncClient",),
    "_client": ("Client",),
    "_descriptions": ("AttributeDescription", "InputDescription", "OperatorDescription", "OutputDescription"),
    "_reports": ("CallReport",),
    "_request_ids": ("request_id",),
    "_server_status": ("DeviceStatus", "Limits", "PoolStatus", "QueueStatus", "ServerStatus", "TurnedOffOperator"),
    "_timeouts": ("DEFAULT", "Timeout"),
    "allocator": ("tune_allocator",),
    "operators.spec": ("AttributeKind",),
    "products": ("Product",),
    "tensors": ("DType",),
}
"""The names of each module, loaded on first use, because a server needs the contract but no client."""
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
