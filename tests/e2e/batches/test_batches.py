"""BatchExecuteOperators: what each call of a batch gives is what it gives alone."""

import random
from collections.abc import Iterator

import grpc
import pytest

import aclgrad
from aclgrad.wire.messages import OperatorCall, encode_batch, encode_request
from tests.client.wire.wire_format import length_field
from tools.raw_calls import (
    BAD,
    CALLS,
    SMALL,
    assert_idle,
    error_of,
    execute,
    execute_batch,
    open_channel,
    send_batch,
)
from tools.serving import Server

POOLING = SMALL["adaptive_avg_pool2d_backward"]


@pytest.fixture
def channel(shared_server: Server) -> Iterator[grpc.Channel]:
    with open_channel(shared_server) as channel:
        yield channel


def test_results_are_those_of_unary_calls_in_order(channel: grpc.Channel, shared_server: Server) -> None:
    calls = list(CALLS.values())
    random.Random(1).shuffle(calls)
    assert execute_batch(channel, calls) == [execute(channel, call) for call in calls]
    assert_idle(shared_server)


@pytest.mark.parametrize("count", [0, 1, 64])
def test_a_batch_of_one_call_many_times(channel: grpc.Channel, count: int) -> None:
    assert execute_batch(channel, [POOLING] * count) == [execute(channel, POOLING)] * count


def test_errors_are_those_of_unary_calls(channel: grpc.Channel) -> None:
    indices = SMALL["max_unpool3d_backward"]
    beyond = tuple(
        type(each)(each.name, each.type, memoryview(b"\x7f" * each.type.size_bytes)) if each.name == "indices" else each
        for each in indices.inputs
    )
    bad = [BAD, OperatorCall("no_such", (), {}), OperatorCall(indices.operator, beyond, indices.attributes)]
    results = execute_batch(channel, [bad[0], POOLING, bad[1], indices, bad[2]])
    for call, found in zip(bad, results[::2], strict=True):
        with pytest.raises(grpc.RpcError) as caught:
            execute(channel, call)
        alone = error_of(caught.value)
        assert isinstance(found, type(alone))
        assert (found.message, found.violations) == (alone.message, alone.violations)
    assert results[1::2] == [execute(channel, POOLING), execute(channel, indices)]


def test_a_call_that_is_no_message_fails_alone(channel: grpc.Channel) -> None:
    good = encode_request(POOLING)
    results = send_batch(channel, encode_batch([good, b"\x0f", b"", good[:-1], good]))
    assert [type(each) for each in results[1:4]] == [
        aclgrad.MalformedRequestError,
        aclgrad.UnknownOperatorError,
        aclgrad.MalformedRequestError,
    ]
    assert results[0] == results[4] == execute(channel, POOLING)


@pytest.mark.parametrize("request_bytes", [b"\x0f", b"\x0a\x05abc"], ids=repr)
def test_a_batch_that_is_no_message_is_refused(channel: grpc.Channel, request_bytes: bytes) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        send_batch(channel, request_bytes)
    assert isinstance(error_of(caught.value), aclgrad.MalformedRequestError)


def test_a_batch_of_4096_calls_and_of_more(channel: grpc.Channel, shared_server: Server) -> None:
    logged = len(shared_server.log.splitlines())
    bad = length_field(1, b"\x0f")
    assert len(send_batch(channel, bad * 4096)) == 4096
    for count in (4097, 20_001):
        with pytest.raises(grpc.RpcError) as caught:
            send_batch(channel, bad * count)
        error = error_of(caught.value)
        assert isinstance(error, aclgrad.LimitExceededError)
        assert error.field == "calls"
        assert "4096" in error.message
    lines = shared_server.log.splitlines()[logged:]
    assert len(lines) < 200
    assert max(map(len, lines)) < 3000
    assert_idle(shared_server)
