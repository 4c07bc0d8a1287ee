"""The exceptions of aclgrad, and how they travel as gRPC statuses.

    AclgradError
    ├── RequestError (ValueError)        the same request never succeeds on this server: change it
    │   ├── MalformedRequestError        not a well-formed message
    │   ├── UnknownOperatorError         no operator has this name
    │   ├── InvalidFieldError            an input, attribute or shape breaks the operator's rules
    │   ├── LimitExceededError           legal, but larger than the server is configured to take
    │   ├── MessageTooLargeError         the message is larger than one side of the connection takes
    │   ├── OperatorNotSupportedError    the server's product does not have the operator
    │   ├── OperatorTurnedOffError       the operator failed the server's self-test
    │   ├── InputValuesRequiredError     the device may read the values of an input that came shape-only
    │   ├── SharedMemoryUnavailableError the server takes no shared memory, or not over this connection
    │   ├── InputFailedError             a step of a program uses an output of one that failed
    │   ├── OtherProductError            the program is made for another product than the server's
    │   └── MethodNotServedError         the server does not serve this method
    ├── RetryableError                   the same request can succeed later or elsewhere
    │   ├── ServerBusyError              as many calls in flight and waiting as the server takes
    │   ├── DeviceMemoryError            other calls hold the device's memory (MemoryError)
    │   ├── DeviceLostError              the device failed; the server restarts (ConnectionError)
    │   ├── ServerDrainingError          the server is shutting down (ConnectionError)
    │   └── ConnectionLostError          the connection broke (ConnectionError)
    │       ├── ServerUnreachableError   no connection could be made: nothing was sent
    │       └── CallCutError             the server ended the call and gave no reason
    ├── AccessDeniedError (PermissionError) the server does not let this caller in, or not to this method
    │   ├── NotAuthenticatedError        the server does not know the caller's token or certificate
    │   └── PermissionDeniedError        the server knows the caller, who has no right to the method
    ├── TlsError (ConnectionError)       client and server do not agree on TLS, or a certificate is refused
    │   └── TlsFileError                 a file of the client's TLS cannot be used (InvalidSettingError)
    ├── InvalidSettingError (ValueError) an argument of a client makes no sense
    ├── WrongEventLoopError (RuntimeError) an AsyncClient is used in a second event loop
    ├── WrongProcessError (RuntimeError) a client is used in a process that was forked off
    ├── NotCopyableError (TypeError)     a client is pickled or copied
    ├── DeadlinePassedError              the time limit passed (TimeoutError)
    ├── ClientTooSlowError               the client sent or fetched too slowly (TimeoutError)
    ├── CallCancelledError               the client was closed, before the call or during it
    ├── StepDiffersError (RuntimeError)  a traced step is not what PyTorch computes any more
    └── ServerFaultError                 the server failed in a way it did not expect

The server raises them, `to_status` writes them as `google.rpc.Status`, and the client raises what `from_status` reads.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeVar

import grpc
from google.protobuf import message as protobuf
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

_Detail = TypeVar("_Detail", bound=protobuf.Message)

DOMAIN: Final = "aclgrad"
"""The domain of every `google.rpc.ErrorInfo` of ours; the reasons are those of `error_reason.proto`."""


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong with one field of a request, and what would be right."""

    field: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.field} {self.problem}; {self.remedy}"


_CANN_SELF: Final = re.compile(r"inputs\[self\](\.\w+)?")
_MAX_VIOLATIONS: Final = 8
"""gRPC takes 16 KiB of metadata in all, and a status beyond that does not arrive."""


def _told(violations: Sequence[Violation]) -> Sequence[Violation]:
    """Returns the violations that are spelled out, with the number of those that are not."""
    more = len(violations) - _MAX_VIOLATIONS
    if more <= 0:
        return violations
    rest = Violation("request", f"has {more} more violations", "correct the others first")
    return (*violations[:_MAX_VIOLATIONS], rest)


def _message_of(violations: Sequence[Violation]) -> str:
    if len(violations) == 1:
        return str(violations[0])
    return " ".join(f"({number}) {each}" for number, each in enumerate(_told(violations), 1))


class AclgradError(Exception):
    """Anything that aclgrad raises.

    `reason` is the name in `error_reason.proto` (empty for errors of the gRPC core), `code` the gRPC status, `field`
    the first field of the request that is at fault, `remedy` what would fix it, `retry_after_s` the delay that the
    server asks for, `metadata` its other values. `request_id` finds the call in the logs of the client and the server;
    it is None if the arguments made no call. `is_from_server` says that the server itself reported the error. `message`
    is the problem, followed by the remedy if there is one.
    """

    reason: str = ""
    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    is_from_server: bool = False
    operator: str | None = None
    """The operator of the call, if the server knew it when it raised the error; it is not sent."""

    def __init__(
        self,
        problem: str,
        *,
        field: str | None = None,
        remedy: str | None = None,
        retry_after_s: float | None = None,
        request_id: str | None = None,
        metadata: Mapping[str, str] | None = None,
        violations: tuple[Violation, ...] = (),
    ) -> None:
        self.message = problem if remedy is None else f"{problem}; {remedy}"
        super().__init__(self.message)
        self.field = field
        self.remedy = remedy
        self.retry_after_s = retry_after_s
        self.request_id = request_id
        self.metadata = dict(metadata or {})
        self.violations = violations

    def __str__(self) -> str:
        """Names the parameter of the client's methods beside the input that CANN calls `self`."""
        return _CANN_SELF.sub(r"\g<0> (parameter `input`)", self.message, count=1)


class InvalidSettingError(AclgradError, ValueError):
    """An argument of a client makes no sense; `field` names it."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class WrongEventLoopError(AclgradError, RuntimeError):
    """An AsyncClient is used in another event loop than that of its first call."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class WrongProcessError(AclgradError, RuntimeError):
    """A client is used in a process that was forked off the one that made it."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class NotCopyableError(AclgradError, TypeError):
    """A client is pickled or copied."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class RequestError(AclgradError, ValueError):
    """The same request never succeeds on this server."""

    code = grpc.StatusCode.INVALID_ARGUMENT

    @classmethod
    def of(cls, *violations: Violation, metadata: Mapping[str, str] | None = None) -> Self:
        """Returns the error that reports these violations; its message spells out the first 8."""
        first = violations[0]
        error = cls(_message_of(violations), field=first.field, metadata=metadata, violations=violations)
        error.remedy = first.remedy  # the message has it
        return error

    @classmethod
    def at(cls, field: str, problem: str, remedy: str, metadata: Mapping[str, str] | None = None) -> Self:
        """Returns the error that reports one violation."""
        return cls.of(Violation(field, problem, remedy), metadata=metadata)


class MalformedRequestError(RequestError):
    """The bytes are not a message of the expected type."""

    reason = "MALFORMED_REQUEST"


class UnknownOperatorError(RequestError, LookupError):
    """No operator has this name."""

    reason = "UNKNOWN_OPERATOR"
    code = grpc.StatusCode.NOT_FOUND


class InvalidFieldError(RequestError):
    """An input, an attribute or a shape breaks the operator's rules; `violations` lists every field."""

    reason = "INVALID_FIELD"


class LimitExceededError(RequestError):
    """The request is legal but larger than the server is configured to take."""

    reason = "LIMIT_EXCEEDED"


class MessageTooLargeError(RequestError):
    """The message is larger than the client or the server takes in one piece (raised by the gRPC core)."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class OperatorNotSupportedError(RequestError):
    """The product of the server's devices does not have the operator."""

    reason = "OPERATOR_NOT_SUPPORTED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class OperatorTurnedOffError(RequestError):
    """The operator failed the self-test that the server made at its start; `metadata["why"]` says how."""

    reason = "OPERATOR_TURNED_OFF"
    code = grpc.StatusCode.FAILED_PRECONDITION


class InputValuesRequiredError(RequestError):
    """The device may read the values of an input that came shape-only: send the array."""

    reason = "INPUT_VALUES_REQUIRED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class SharedMemoryUnavailableError(RequestError):
    """The server takes no shared memory, or not over this connection: send the data itself."""

    reason = "SHARED_MEMORY_UNAVAILABLE"
    code = grpc.StatusCode.FAILED_PRECONDITION


class InputFailedError(RequestError):
    """A step of a program uses an output of one that failed: `metadata["step"]` is the number of that step."""

    reason = "INPUT_FAILED"
    code = grpc.StatusCode.FAILED_PRECONDITION


class OtherProductError(RequestError):
    """The program is made for another product than the server's, which `metadata["product"]` names."""

    reason = "OTHER_PRODUCT"
    code = grpc.StatusCode.FAILED_PRECONDITION


class MethodNotServedError(RequestError):
    """The server does not serve this method (raised by the gRPC core)."""

    code = grpc.StatusCode.UNIMPLEMENTED


class RetryableError(AclgradError):
    """The same request can succeed later or elsewhere."""

    code = grpc.StatusCode.UNAVAILABLE


class ServerBusyError(RetryableError):
    """The server has as many calls in flight and waiting as it takes."""

    reason = "SERVER_BUSY"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeviceMemoryError(RetryableError, MemoryError):
    """The device has not enough free memory while other calls hold it."""

    reason = "DEVICE_MEMORY_EXHAUSTED"
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class DeviceLostError(RetryableError, ConnectionError):
    """The device failed; the server that owns it restarts."""

    reason = "DEVICE_LOST"


class ServerDrainingError(RetryableError, ConnectionError):
    """The server is shutting down and takes no new calls."""

    reason = "SERVER_DRAINING"


class ConnectionLostError(RetryableError, ConnectionError):
    """The connection broke (raised by the gRPC core)."""


class ServerUnreachableError(ConnectionLostError):
    """No connection to a server could be made, so nothing was sent (raised by the gRPC core)."""


class CallCutError(ConnectionLostError):
    """The server ended the call and gave no reason: it stops, or the client was too slow for it."""

    code = grpc.StatusCode.CANCELLED


class TlsError(AclgradError, ConnectionError):
    """Client and server do not agree on TLS, or the client refuses the server's certificate; nothing was sent."""

    code = grpc.StatusCode.UNAVAILABLE


class TlsFileError(TlsError, InvalidSettingError):
    """A file of the client's TLS cannot be used: its content is wrong, or not valid now; `field` names the argument."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class AccessDeniedError(AclgradError, PermissionError):
    """The server does not let this caller in, or not to this method."""

    code = grpc.StatusCode.PERMISSION_DENIED


class NotAuthenticatedError(AccessDeniedError):
    """The server does not know the caller: it has no valid token and no known certificate."""

    reason = "UNAUTHENTICATED"
    code = grpc.StatusCode.UNAUTHENTICATED


class PermissionDeniedError(AccessDeniedError):
    """The server knows the caller, who has no right to the method."""

    reason = "PERMISSION_DENIED"


class DeadlinePassedError(AclgradError, TimeoutError):
    """The time limit of the call passed."""

    reason = "DEADLINE_PASSED"
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class ClientTooSlowError(AclgradError, TimeoutError):
    """The server ended the call because the client sent or fetched too little within the server's time limit."""

    reason = "CLIENT_TOO_SLOW"
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class CallCancelledError(AclgradError):
    """The client was closed, before the call or during it."""

    code = grpc.StatusCode.CANCELLED


class StepDiffersError(AclgradError, RuntimeError):
    """A traced step is not what PyTorch computes any more; the message names the first module that differs."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class ServerFaultError(AclgradError):
    """The server failed in a way it did not expect; report the request id."""

    reason = "INTERNAL_ERROR"
    code = grpc.StatusCode.INTERNAL


def _subclasses(kind: type[AclgradError]) -> Iterator[type[AclgradError]]:
    for child in kind.__subclasses__():
        yield child
        yield from _subclasses(child)


_BY_REASON: Final = {kind.reason: kind for kind in _subclasses(AclgradError) if kind.reason}


def code_of_reason(reason: str) -> grpc.StatusCode:
    """Returns the gRPC status of errors with this reason."""
    return _BY_REASON.get(reason, AclgradError).code


_MAX_TEXT: Final = 400
"""Texts that a client chose are cut, for the same reason as violations."""


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT // 2]} ... {text[-_MAX_TEXT // 4 :]}"


def to_status(error: AclgradError, request_id: str) -> status_pb2.Status:
    """Returns the status that reports this error to a client."""
    metadata = {**error.metadata, "request_id": request_id}
    if error.field:
        metadata["field"] = error.field
    if error.remedy:
        metadata["remedy"] = error.remedy
    metadata = {key: _cut(value) for key, value in metadata.items()}
    status = status_pb2.Status(code=error.code.value[0], message=_cut(error.message))
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=metadata))
    if error.violations:
        bad_request = error_details_pb2.BadRequest()
        for violation in _told(error.violations):
            bad_request.field_violations.add(
                field=_cut(violation.field), description=_cut(f"{violation.problem}; {violation.remedy}")
            )
        status.details.add().Pack(bad_request)
    if error.retry_after_s is not None:
        delay = Duration()
        delay.FromNanoseconds(round(error.retry_after_s * 1e9))
        status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    return status


def _detail(status: status_pb2.Status, kind: type[_Detail]) -> _Detail | None:
    """Returns the first well-formed detail of this kind."""
    for detail in status.details:
        message = kind()
        with suppress(protobuf.DecodeError):
            if detail.Unpack(message):
                return message
    return None


def retry_delay_s(status: status_pb2.Status) -> float | None:
    """Returns the delay that the status asks for, whoever made it, or None where it asks for no other attempt."""
    retry_info = _detail(status, error_details_pb2.RetryInfo)
    if retry_info is None:
        return None
    delay_s: float = retry_info.retry_delay.seconds + retry_info.retry_delay.nanos / 1e9
    return max(0.0, delay_s)


def from_status(status: status_pb2.Status) -> AclgradError | None:
    """Returns the error that the status reports, or None if the status carries no `ErrorInfo` of ours.

    A reason that this version does not know becomes a plain AclgradError with that reason.
    """
    info = _detail(status, error_details_pb2.ErrorInfo)
    bad_request = _detail(status, error_details_pb2.BadRequest)
    if info is None or info.domain != DOMAIN:
        return None
    metadata = dict(info.metadata)
    violations = []
    for violation in bad_request.field_violations if bad_request else ():
        problem, _, remedy = violation.description.partition("; ")
        violations.append(Violation(violation.field, problem, remedy))
    remedy = metadata.pop("remedy", None)
    error = _BY_REASON.get(info.reason, AclgradError)(
        # The status has no room for all of them.
        _message_of(violations) if len(violations) > 1 else status.message,
        field=metadata.pop("field", None),
        retry_after_s=retry_delay_s(status),
        request_id=metadata.pop("request_id", None),
        metadata=metadata,
        violations=tuple(violations),
    )
    error.remedy = remedy  # the message has it
    error.reason = info.reason
    error.is_from_server = True
    error.code = next((code for code in grpc.StatusCode if code.value[0] == status.code), error.code)
    return error
