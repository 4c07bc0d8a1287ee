"""The errors of failed calls, without input or output: both clients share it."""

import re
from typing import Any, Final, Protocol

import grpc
from google.protobuf.message import DecodeError
from google.rpc import status_pb2

from aclgrad import errors
from aclgrad._client.channel.proxies import Proxy
from aclgrad.errors import AclgradError, ConnectionLostError

_STATUS_DETAILS = "grpc-status-details-bin"
_WRITE_FAILED = "Internal error from Core"
"""grpc.aio's text if the server ended a call while its messages were being written."""
_UNREACHED = re.compile(r"failed to connect|all backends failing|errors resolving|resolution failed", re.IGNORECASE)
"""The core's texts if no connection could be made; with any other text, the call counts as sent."""
_UNRESOLVED = re.compile(r"errors resolving|resolution failed", re.IGNORECASE)
"""The core's text if the name of the host has no address."""
_UNAUTHORIZED = re.compile(r"response code 407")
"""The core's text if a proxy requires a password, or another one."""
_TOO_LARGE = re.compile(r"message larger than max( \((?P<size>\d+) vs\. (?P<limit>\d+)\))?")
"""The core reports no sizes of a compressed message."""


_TLS_FAILURE: Final = re.compile(r"SSL_ERROR_SSL|verification check failed", re.IGNORECASE)
_TLS_CAUSES: Final = (
    (
        "WRONG_VERSION_NUMBER",
        "the server does not speak TLS",
        "give no credentials (ACLGRAD_CA) or tls=False (ACLGRAD_TLS=false), or put TLS on the server",
    ),
    (
        "hostname verification",
        "the server's certificate is for another host",
        "give the target a name that it has, or set server_name= (ACLGRAD_SERVER_NAME)",
    ),
    ("certificate has expired", "the server's certificate has expired", "renew it"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the server's certificate is not trusted",
        "give aclgrad.Credentials(ca=...) or ACLGRAD_CA the certificate of the authority that signed it",
    ),
)
"""The core's texts of failed handshakes, with problem and remedy."""
_CUT: Final = re.compile(r"socket closed|connection reset|end of tcp stream|broken pipe", re.IGNORECASE)


class RpcFailure(Protocol):
    """The error of a failed call, the same in grpc and in grpc.aio."""

    def code(self) -> grpc.StatusCode: ...

    def details(self) -> str | None: ...

    def trailing_metadata(self) -> Any: ...


def error_of(failure: RpcFailure, target: str, *, is_closed: bool, proxy: Proxy | None = None) -> AclgradError:
    """Returns our exception for a failed call of an open or closed client, possibly through a proxy."""
    error = _core_error(failure.code(), failure.details() or "", target, proxy)
    if is_closed and isinstance(error, ConnectionLostError):
        return closed_error(target)
    error.code = failure.code()
    for key, value in failure.trailing_metadata() or ():
        if key == _STATUS_DETAILS and isinstance(value, bytes):
            try:
                status = status_pb2.Status.FromString(value)
            except DecodeError:
                break
            ours = errors.from_status(status)
            if ours is not None:
                return ours
            # A proxy, for example, may ask for another attempt, too.
            error.retry_after_s = errors.retry_delay_s(status)
    return error


def error_of_status(status: status_pb2.Status) -> AclgradError:
    """Returns our exception for the status of one step of a program."""
    return errors.from_status(status) or AclgradError(status.message)


def closed_error(target: str) -> AclgradError:
    """Returns the error of a call on a closed client."""
    remedy = "make a new client"
    return errors.CallCancelledError(f"{target}: the client is closed", remedy=remedy)


def wrong_loop_error(target: str) -> AclgradError:
    """Returns the error of a call on another event loop's client."""
    remedy = "make one AsyncClient for each event loop, within the function that asyncio.run is given"
    return errors.WrongEventLoopError(f"{target}: the client belongs to another event loop", remedy=remedy)


def channel_closed_error(target: str) -> AclgradError:
    """Returns the error of a call on a channel that its owner has closed."""
    remedy = "make a new channel and a new client"
    return errors.CallCancelledError(f"{target}: the channel is closed", remedy=remedy)


def forked_error(target: str) -> AclgradError:
    """Returns the error of a call in a process forked off the client's."""
    remedy = "make a client in each process, and start processes by multiprocessing's `spawn` or `forkserver`"
    return errors.WrongProcessError(f"{target}: the client belongs to the process that made it", remedy=remedy)


def not_copyable_error(target: str) -> AclgradError:
    """Returns the error of pickling or copying a client."""
    remedy = "pass on the target, and make a client from it in each process; threads share one client"
    return errors.NotCopyableError(f"{target}: a client cannot be pickled or copied", remedy=remedy)


def unfound_error(target: str, left_s: float | None, source_problem: str) -> AclgradError:
    """Returns the error of a call for which no host of a list was found in time."""
    if left_s is not None and left_s <= 0:
        return deadline_error(target)
    if source_problem:
        remedy = "correct the function, or what it asks; it is asked again at the next call"
        return errors.ServerUnreachableError(f"{target}: {source_problem}", remedy=remedy)
    remedy = "check the names of the hosts, and that a name server answers"
    return errors.ServerUnreachableError(f"{target}: no host of the list can be found", remedy=remedy)


def deadline_error(target: str) -> AclgradError:
    """Returns the error of a call whose time limit passed."""
    remedy = "give a larger timeout_s"
    return errors.DeadlinePassedError(f"{target}: no reply within the time limit", remedy=remedy)


def unreadable_reply(error: Exception) -> errors.ServerFaultError:
    """Returns the error of a reply that does not fit its method."""
    return errors.ServerFaultError(f"the reply of the server cannot be read: {error}")


def hides_a_status(failure: RpcFailure) -> bool:
    """Whether grpc.aio replaced the call's status by one of its own."""
    return failure.details() == _WRITE_FAILED


def _core_error(code: grpc.StatusCode, details: str, target: str, proxy: Proxy | None) -> AclgradError:
    """Returns our exception for a status of the gRPC core, which has no details of ours."""
    too_large = _TOO_LARGE.search(details)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and too_large:
        remedy = (
            "raise --max-message-bytes (ACLGRAD_MAX_MESSAGE_BYTES) of the server or max_message_bytes of the client, "
            "whichever is smaller, or send fewer calls or smaller tensors in one message"
        )
        sizes = {name: size for name, size in too_large.groupdict().items() if size is not None}
        message = "a message exceeds, decompressed, the limit of the side that received it"
        if sizes:
            message = f"a message of {sizes['size']} bytes exceeds the limit of {sizes['limit']} bytes"
        return errors.MessageTooLargeError(message, field="message", remedy=remedy, metadata=sizes)
    if code is grpc.StatusCode.UNAVAILABLE:
        if _TLS_FAILURE.search(details):
            return _tls_error(details, target)
        remedy = f"check that a server listens on {target}"
        if not target.startswith("unix:"):
            remedy += " and that the network lets it through"
        if proxy is not None and _UNREACHED.search(details):
            return _proxy_error(details, target, proxy)
        if _UNRESOLVED.search(details):
            details = f"its host cannot be looked up: {_cause(details)}"
            remedy = "check the name of the host, and that a name server answers"
            return errors.ServerUnreachableError(f"{target}: {details}", remedy=remedy)
        if _UNREACHED.search(details) and _CUT.search(details):
            remedy = (
                "the server ended the connection before the first call: if it has TLS, give aclgrad.Credentials(ca=...)"
                " or ACLGRAD_CA, and certificate= and key= (ACLGRAD_CERTIFICATE, ACLGRAD_KEY) if it asks for one"
            )
        if _UNREACHED.search(details):
            return errors.ServerUnreachableError(f"{target}: no connection: {_cause(details)}", remedy=remedy)
        return errors.ConnectionLostError(f"{target}: {details}", remedy=remedy)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return deadline_error(target)
    if code is grpc.StatusCode.CANCELLED or details == _WRITE_FAILED:
        # A stopping server cancels calls that it has not begun to answer.
        remedy = "if the connection is slow, send less in one call or raise --client-timeout-s of the server"
        what = "the server ended the call and gave no reason: it stops, or a message took too long to arrive"
        return errors.CallCutError(f"{target}: {what}", remedy=remedy)
    if code is grpc.StatusCode.UNIMPLEMENTED:
        remedy = "check that the target is an aclgrad server of this version or a newer one"
        return errors.MethodNotServedError(f"{target}: {details}", remedy=remedy)
    return AclgradError(f"{target}: {code.name}: {details}")


def _proxy_error(details: str, target: str, proxy: Proxy) -> errors.ServerUnreachableError:
    """Returns the error of a call that a proxy failed to pass on."""
    name = f"the proxy {proxy.name} of {proxy.variable}"
    problem = proxy.problem or (_UNRESOLVED.search(details) and f"cannot be looked up: {_cause(details)}")
    if problem:
        remedy = f"correct {proxy.variable}, or {proxy.way_around('the host')}"
        return errors.ServerUnreachableError(f"{target}: {name} {problem}", remedy=remedy)
    check = "check the user and the password" if _UNAUTHORIZED.search(details) else f"check that it leads to {target}"
    remedy = f"gRPC goes through {name}: {check}, or {proxy.way_around('the host')}"
    return errors.ServerUnreachableError(f"{target}: {details}", remedy=remedy)


def _cause(details: str) -> str:
    """Returns why a name cannot be looked up or no connection be made, from the core's text."""
    return details.rstrip("].").rpartition(": ")[2]


def _tls_error(details: str, target: str) -> errors.TlsError:
    """Returns the error of a handshake that failed on this side; the server does not learn the reason."""
    for sign, problem, remedy in _TLS_CAUSES:
        if sign.lower() in details.lower():
            return errors.TlsError(f"{target}: no TLS connection: {problem}", remedy=remedy)
    return errors.TlsError(f"{target}: no TLS connection: {details}", remedy="check the certificates of both sides")
