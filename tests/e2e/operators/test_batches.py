"""BatchExecuteOperators: calls have the errors that they have alone, and what is no batch has one error."""

import grpc
import pytest

import aclgrad
from aclgrad.sources import in_message
from aclgrad.wire.messages import OperatorCall, encode_batch, encode_request
from tools.raw_calls import BAD, SMALL, assert_idle, error_of, execute, execute_batch, open_channel, send_batch
from tools.serving import Server

POOLING = SMALL["adaptive_avg_pool2d_backward"]


def test_errors_are_those_of_unary_calls(shared_server: Server) -> None:
    indices = SMALL["max_unpool3d_backward"]
    beyond = tuple(
        type(each)(each.name, each.type, in_message(memoryview(b"\x7f" * each.type.size_bytes)))
        if each.name == "indices"
        else each
        for each in indices.inputs
    )
    bad = [BAD, OperatorCall("no_such", (), {}), OperatorCall(indices.operator, beyond, indices.attributes)]
    with open_channel(shared_server) as channel:
        results = execute_batch(channel, [bad[0], POOLING, bad[1], indices, bad[2]])
        for call, found in zip(bad, results[::2], strict=True):
            with pytest.raises(grpc.RpcError) as caught:
                execute(channel, call)
            alone = error_of(caught.value)
            assert isinstance(found, type(alone))
            assert (found.message, found.violations) == (alone.message, alone.violations)
        assert results[1::2] == [execute(channel, POOLING), execute(channel, indices)]


def test_bytes_that_are_no_message(shared_server: Server) -> None:
    good = encode_request(POOLING)
    with open_channel(shared_server) as channel:
        first, *wrong, last = send_batch(channel, encode_batch([good, b"\x0f", b"", good[:-1], good]))
        assert [type(each) for each in wrong] == [
            aclgrad.MalformedRequestError,
            aclgrad.UnknownOperatorError,
            aclgrad.MalformedRequestError,
        ]
        assert first == last == execute(channel, POOLING)
        assert send_batch(channel, b"") == []
        for request in (b"\x0f", b"\x0a\x05abc"):
            with pytest.raises(grpc.RpcError) as caught:
                send_batch(channel, request)
            assert isinstance(error_of(caught.value), aclgrad.MalformedRequestError)
    assert_idle(shared_server)
