"""The codec on any bytes: the first byte chooses what is made of the others."""

from typing import Final

from google.protobuf.message import DecodeError

from aclgrad.errors import MalformedRequestError
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import BATCH_CALLS
from aclgrad_server.native_codec import extract_payloads
from tests.client.wire.agreement import KINDS, PATHS, assert_agrees_with_protobuf, assert_scans_agree
from tests.client.wire.calls import CALLS, message_of

_KINDS = tuple(KINDS.values())
_MESSAGES: Final = [message_of(call) for name, call in CALLS.items() if name != "large"]
SEEDS: Final = [
    bytes((choice,)) + message.SerializeToString()
    for choices, messages in (
        ((0, 128), _MESSAGES),
        ((1,), [pb.ExecuteOperatorResponse(outputs=each.inputs) for each in _MESSAGES]),
        ((2,), [pb.BatchExecuteOperatorsResponse(results=[{"outputs": each.inputs} for each in _MESSAGES])]),
        ((3,), [pb.ExecuteOperatorChunkedRequest(header={"request": each}) for each in _MESSAGES]),
        ((4,), [pb.ExecuteOperatorChunkedRequest(chunk={"tensor_index": 1, "offset_bytes": 300, "data": b"12345"})]),
        ((128,), [pb.BatchExecuteOperatorsRequest(calls=_MESSAGES)]),
    )
    for choice in choices
    for message in messages
]


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
