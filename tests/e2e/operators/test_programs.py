"""ExecuteProgram: steps have the errors that they have alone, and what is no program has one error."""

import grpc
import pytest

import aclgrad
from aclgrad.sources import in_message
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import encode_program
from tools.raw_calls import BAD, SMALL, assert_idle, error_of, execute, execute_batch, open_channel, send_program
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
        first, wrong, last = send_program(channel, encode_program([good, b"", good]))
        assert isinstance(wrong, aclgrad.UnknownOperatorError)
        assert first == last == execute(channel, POOLING)
        assert send_program(channel, b"") == []
        for request in (b"\x0f", b"\x0a\x05abc", encode_program([good, b"\x0f"]), encode_program([good[:-1]])):
            with pytest.raises(grpc.RpcError) as caught:
                send_program(channel, request)
            assert isinstance(error_of(caught.value), aclgrad.MalformedRequestError)
    assert_idle(shared_server)
