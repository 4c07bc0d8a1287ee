"""The codec on any bytes: the first byte chooses what is made of the others."""

from google.protobuf.message import DecodeError

from aclgrad.errors import MalformedRequestError
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import BATCH_CALLS
from aclgrad_server.devices.native import extract_payloads
from tests.client.wire.agreement import KINDS, PATHS, assert_agrees_with_protobuf, assert_scans_agree

_KINDS = tuple(KINDS.values())


def run(data: bytes) -> None:
    """Raises AssertionError where the scans differ, where we and protobuf differ, or where an error is none of ours."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    if choice < 128:
        assert_agrees_with_protobuf(_KINDS[choice % len(_KINDS)], body)
        return
    for path in PATHS:
        assert_scans_agree(body, path)
    _assert_batch_is_split_as_protobuf_does(body)


def _assert_batch_is_split_as_protobuf_does(data: bytes) -> None:
    """Where protobuf reads a batch, we find the same calls; a bad call is none of the others' business."""
    try:
        calls = extract_payloads(data, BATCH_CALLS)[1]
        message = pb.BatchExecuteOperatorsRequest.FromString(data)
    except (MalformedRequestError, DecodeError):
        return
    assert [pb.ExecuteOperatorRequest.FromString(bytes(each)) for each in calls] == list(message.calls)
