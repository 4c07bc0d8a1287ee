"""Gradients from an Ascend card that is not in your machine.

import aclgrad

with aclgrad.Client("127.0.0.1:50051") as client:
    gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from aclgrad.errors import (
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
    OperatorNotSupportedError,
    OperatorTurnedOffError,
    RequestError,
    RetryableError,
    ServerBusyError,
    ServerDrainingError,
    ServerFaultError,
    ServerUnreachableError,
    SharedMemoryUnavailableError,
    UnknownOperatorError,
    Violation,
    WrongEventLoopError,
)

if TYPE_CHECKING:
    from aclgrad import masks, reference
    from aclgrad._aio import AsyncClient
    from aclgrad._client import Client
    from aclgrad._reports import CallReport
    from aclgrad._request_ids import request_id
    from aclgrad._timeouts import DEFAULT, Timeout
    from aclgrad.allocator import tune_allocator

__all__ = [
    "DEFAULT",
    "AclgradError",
    "AsyncClient",
    "CallCancelledError",
    "CallCutError",
    "CallReport",
    "Client",
    "ClientTooSlowError",
    "ConnectionLostError",
    "DeadlinePassedError",
    "DeviceLostError",
    "DeviceMemoryError",
    "InputValuesRequiredError",
    "InvalidFieldError",
    "InvalidSettingError",
    "LimitExceededError",
    "MalformedRequestError",
    "MessageTooLargeError",
    "MethodNotServedError",
    "OperatorNotSupportedError",
    "OperatorTurnedOffError",
    "RequestError",
    "RetryableError",
    "ServerBusyError",
    "ServerDrainingError",
    "ServerFaultError",
    "ServerUnreachableError",
    "SharedMemoryUnavailableError",
    "Timeout",
    "UnknownOperatorError",
    "Violation",
    "WrongEventLoopError",
    "masks",
    "reference",
    "request_id",
    "tune_allocator",
]

__version__ = version("aclgrad")

_MODULES: Final = {
    "DEFAULT": "_timeouts",
    "AsyncClient": "_aio",
    "CallReport": "_reports",
    "Client": "_client",
    "Timeout": "_timeouts",
    "request_id": "_request_ids",
    "tune_allocator": "allocator",
}
"""Loaded when they are first used: a server takes the contract and no client."""


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
