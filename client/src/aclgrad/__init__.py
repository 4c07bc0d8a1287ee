"""Gradients from an Ascend card that is not in your machine.

import aclgrad

with aclgrad.Client("127.0.0.1:50051") as client:
    gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))
"""

from importlib.metadata import version

from aclgrad._aio import AsyncClient
from aclgrad._allocator import tune_allocator
from aclgrad._client import Client
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

__all__ = [
    "AclgradError",
    "AsyncClient",
    "CallCancelledError",
    "CallCutError",
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
    "RequestError",
    "RetryableError",
    "ServerBusyError",
    "ServerDrainingError",
    "ServerFaultError",
    "ServerUnreachableError",
    "SharedMemoryUnavailableError",
    "UnknownOperatorError",
    "Violation",
    "WrongEventLoopError",
    "tune_allocator",
]

__version__ = version("aclgrad")
