"""What a look at servers sends and reads, without any input or output: both clients share it."""

from typing import Final

import grpc
from google.protobuf.message import DecodeError

from aclgrad._client.channel.network import Answer
from aclgrad._client.channel.servers import Route
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.service import path_of

ASK_S: Final = 5.0
CHECK_S: Final = 1.0
CONNECT_S: Final = 2.0
"""How long a server has to say who its siblings are, who it is, and to take the first connection of a new channel."""
LIST: Final = path_of("ListOperators")
LIST_REQUEST: Final = pb.ListOperatorsRequest().SerializeToString()
CHECK: Final = "/grpc.health.v1.Health/Check"
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"
_SILENT: Final = grpc.StatusCode.DEADLINE_EXCEEDED
_FINAL: Final = (
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INTERNAL,
)
"""What a server that does not tell goes on to answer."""
_UNREACHABLE: Final = grpc.StatusCode.UNAVAILABLE


def check_request(route: Route) -> bytes:
    """Returns the question for the service of a route, as `grpc.health.v1` has it: one field, a text."""
    name = route.service.encode()
    return b"\x0a" + bytes((len(name),)) + name


def answer_of(reply: bytes | None, code: grpc.StatusCode | None = None) -> Answer:
    """Returns what a reply means, or the status of a call without one."""
    if reply is not None:
        # One that drains is still the server that is meant.
        return Answer.HERE if reply in (_SERVING, _NOT_SERVING) else Answer.STRANGER
    return {_SILENT: Answer.SILENT, _UNREACHABLE: Answer.UNREACHABLE}.get(code or _SILENT, Answer.STRANGER)


def host_of(reply: bytes | None, code: grpc.StatusCode | None = None) -> pb.Host | None:
    """Returns what the reply to LIST says of the host, or a status; None if it may say more when it is asked again."""
    if reply is None:
        return pb.Host() if code in _FINAL else None
    try:
        return pb.ListOperatorsResponse.FromString(reply).host
    except DecodeError:
        return pb.Host()
