"""The codec on any bytes: the first byte chooses what is made of the others."""

from collections.abc import Callable
from typing import Any

from google.protobuf.message import DecodeError

from aclgrad.errors import MalformedRequestError
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire import scan
from aclgrad.wire.messages import BATCH_CALLS
from aclgrad_server.devices.planning import extract_payloads
from tests.client.wire.agreement import KINDS, assert_agrees_with_protobuf

_KINDS = tuple(KINDS.values())
_PATHS = ((2, 4), (1,), (1, 1, 2, 4), (2, 3), (1, 1, 4), (1, 4))
"""Every path of field numbers that is in use."""


def run(data: bytes) -> None:
    """Raises AssertionError where the scans differ, where we and protobuf differ, or where an error is none of ours."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    if choice < 128:
        assert_agrees_with_protobuf(_KINDS[choice % len(_KINDS)], body)
        return
    for path in _PATHS:
        _assert_scans_agree(body, path)
    _assert_batch_is_split_as_protobuf_does(body)


def _assert_scans_agree(data: bytes, path: tuple[int, ...]) -> None:
    """The native scan gives the rest, the payloads, or the text of the error that the one in Python gives."""
    scans = [_scan(extract, data, path) for extract in (scan.extract_payloads, extract_payloads)]
    assert scans[0] == scans[1]


def _scan(extract: Callable[..., Any], data: bytes, path: tuple[int, ...]) -> object:
    try:
        rest, payloads = extract(data, path)
    except MalformedRequestError as error:
        return str(error)
    return rest, [bytes(each) for each in payloads]


def _assert_batch_is_split_as_protobuf_does(data: bytes) -> None:
    """Where protobuf reads a batch, we find the same calls; a bad call is none of the others' business."""
    try:
        calls = extract_payloads(data, BATCH_CALLS)[1]
        message = pb.BatchExecuteOperatorsRequest.FromString(data)
    except (MalformedRequestError, DecodeError):
        return
    assert [pb.ExecuteOperatorRequest.FromString(bytes(each)) for each in calls] == list(message.calls)
