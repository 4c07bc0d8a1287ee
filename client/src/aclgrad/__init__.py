"""Gradients from an Ascend card that is not in your machine.

import aclgrad

with aclgrad.Client("127.0.0.1:50051") as client:
    gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))

Calls: `Client`, `AsyncClient`, their batches (`Batch`, `AsyncBatch`) and their programs (`Program`, `AsyncProgram`, of
`Handle`s). `request_id` names calls, a `CallReport` describes an ended call, `channel_options` are for a channel of
your own, `tune_allocator` makes large messages faster.

Errors: whatever a call raises is an `AclgradError`; the module `aclgrad.errors` draws the tree.

What a server offers: `OperatorDescription` (of an `OperatorKind`) with `InputDescription`, `AttributeDescription` (of
an `AttributeKind`) and `OutputDescription`; `ServerStatus` with `Problem`, `DeviceStatus`, `PoolStatus`, `QueueStatus`,
`OperatorStatus`, `ProgramStatus`, `FailureStatus`, `ProcessStatus`, `WorkerStatus`, `SiblingWorker`, `Limits` and
`TurnedOffOperator`;
`Product`; `DType`.

For annotations: `Array` (a gradient), `Input` (a `TensorLike`, or a tuple of sizes for its shape, or a `TensorType` for
its dtype and shape), `Output` (what `out` takes), `AttributeLike` and `Ints` (values of attributes), `Timeout`
(seconds, None for no limit, `DEFAULT` for the client's), `Metadata`, `ChannelOption` and `OnCall` (arguments of a
client).

Without a server: `reference` has the operators' definitions in float64, `masks` the layouts of max-pool indices.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    __version__: str
    from aclgrad import errors, masks, reference
    from aclgrad._client.aio.client import AsyncBatch, AsyncClient, AsyncProgram
    from aclgrad._client.attempts.request_ids import request_id
    from aclgrad._client.calls.arguments import Input
    from aclgrad._client.calls.arrays import Array, TensorLike
    from aclgrad._client.calls.destination import Output
    from aclgrad._client.calls.handles import Handle
    from aclgrad._client.calls.operator_methods import Ints
    from aclgrad._client.channel.options import ChannelOption, channel_options
    from aclgrad._client.reports import CallReport, OnCall
    from aclgrad._client.settings.checks import DEFAULT, Timeout
    from aclgrad._client.settings.credentials import Credentials
    from aclgrad._client.settings.metadata import Metadata
    from aclgrad._client.sync.client import Batch, Client, Program
    from aclgrad.allocator import tune_allocator
    from aclgrad.descriptions.operators import (
        AttributeDescription,
        InputDescription,
        OperatorDescription,
        OutputDescription,
    )
    from aclgrad.descriptions.status import (
        DeviceStatus,
        FailureStatus,
        Limits,
        OperatorStatus,
        PoolStatus,
        Problem,
        ProcessStatus,
        ProgramStatus,
        QueueStatus,
        ServerStatus,
        SiblingWorker,
        TurnedOffOperator,
        WorkerStatus,
    )
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
        InputFailedError,
        InputValuesRequiredError,
        InvalidFieldError,
        InvalidSettingError,
        LimitExceededError,
        MalformedRequestError,
        MessageTooLargeError,
        MethodNotServedError,
        NotAuthenticatedError,
        NotCopyableError,
        OperatorNotSupportedError,
        OperatorTurnedOffError,
        OtherProductError,
        PermissionDeniedError,
        RequestError,
        RetryableError,
        ServerBusyError,
        ServerDrainingError,
        ServerFaultError,
        ServerUnreachableError,
        SharedMemoryUnavailableError,
        StepDiffersError,
        TlsError,
        TlsFileError,
        UnknownOperatorError,
        Violation,
        WrongEventLoopError,
        WrongProcessError,
    )
    from aclgrad.operators.attributes import AttributeLike
    from aclgrad.operators.spec import AttributeKind, OperatorKind
    from aclgrad.products import Product
    from aclgrad.tensors import DType, TensorType

__all__ = [
    "DEFAULT",
    "AccessDeniedError",
    "AclgradError",
    "Array",
    "AsyncBatch",
    "AsyncClient",
    "AsyncProgram",
    "AttributeDescription",
    "AttributeKind",
    "AttributeLike",
    "Batch",
    "CallCancelledError",
    "CallCutError",
    "CallReport",
    "ChannelOption",
    "Client",
    "ClientTooSlowError",
    "ConnectionLostError",
    "Credentials",
    "DType",
    "DeadlinePassedError",
    "DeviceLostError",
    "DeviceMemoryError",
    "DeviceStatus",
    "FailureStatus",
    "Handle",
    "Input",
    "InputDescription",
    "InputFailedError",
    "InputValuesRequiredError",
    "Ints",
    "InvalidFieldError",
    "InvalidSettingError",
    "LimitExceededError",
    "Limits",
    "MalformedRequestError",
    "MessageTooLargeError",
    "Metadata",
    "MethodNotServedError",
    "NotAuthenticatedError",
    "NotCopyableError",
    "OnCall",
    "OperatorDescription",
    "OperatorKind",
    "OperatorNotSupportedError",
    "OperatorStatus",
    "OperatorTurnedOffError",
    "OtherProductError",
    "Output",
    "OutputDescription",
    "PermissionDeniedError",
    "PoolStatus",
    "Problem",
    "ProcessStatus",
    "Product",
    "Program",
    "ProgramStatus",
    "QueueStatus",
    "RequestError",
    "RetryableError",
    "ServerBusyError",
    "ServerDrainingError",
    "ServerFaultError",
    "ServerStatus",
    "ServerUnreachableError",
    "SharedMemoryUnavailableError",
    "SiblingWorker",
    "StepDiffersError",
    "TensorLike",
    "TensorType",
    "Timeout",
    "TlsError",
    "TlsFileError",
    "TurnedOffOperator",
    "UnknownOperatorError",
    "Violation",
    "WorkerStatus",
    "WrongEventLoopError",
    "WrongProcessError",
    "channel_options",
    "errors",
    "masks",
    "reference",
    "request_id",
    "tune_allocator",
]

_NAMES: Final = {
    "_client.aio.client": ("AsyncBatch", "AsyncClient", "AsyncProgram"),
    "_client.calls.arrays": ("Array", "TensorLike"),
    "_client.sync.client": ("Batch", "Client", "Program"),
    "_client.calls.handles": ("Handle",),
    "_client.settings.credentials": ("Credentials",),
    "descriptions.operators": (
        "AttributeDescription",
        "InputDescription",
        "OperatorDescription",
        "OutputDescription",
    ),
    "_client.calls.destination": ("Output",),
    "_client.settings.metadata": ("Metadata",),
    "_client.calls.operator_methods": ("Ints",),
    "_client.calls.arguments": ("Input",),
    "_client.reports": ("CallReport", "OnCall"),
    "_client.attempts.request_ids": ("request_id",),
    "descriptions.status": (
        "DeviceStatus",
        "FailureStatus",
        "Limits",
        "OperatorStatus",
        "PoolStatus",
        "Problem",
        "ProcessStatus",
        "ProgramStatus",
        "QueueStatus",
        "ServerStatus",
        "SiblingWorker",
        "TurnedOffOperator",
        "WorkerStatus",
    ),
    "_client.channel.options": ("ChannelOption", "channel_options"),
    "_client.settings.checks": ("DEFAULT", "Timeout"),
    "allocator": ("tune_allocator",),
    "errors": (*(name for name in __all__ if name.endswith("Error")), "Violation"),
    "operators.attributes": ("AttributeLike",),
    "operators.spec": ("AttributeKind", "OperatorKind"),
    "products": ("Product",),
    "tensors": ("DType", "TensorType"),
}
"""The names of each module, loaded on first use: a server needs the contract but no client, a supervisor no gRPC."""
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        # Importing `importlib.metadata` takes as long as everything else here together.
        from importlib.metadata import version

        return version("aclgrad")
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
