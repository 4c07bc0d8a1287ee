"""Chunked calls that stall, end early or come too late: what they held is free soon, whoever gave up."""

import threading
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall, decode_response
from tests.e2e.shared_objects import Objects, send
from tools.calling import wait_until
from tools.raw_calls import (
    SMALL,
    assert_idle,
    chunked_messages,
    data_of,
    error_of,
    execute,
    execute_chunked,
    open_channel,
    open_chunked,
)
from tools.serving import Server

CALL = SMALL["adaptive_avg_pool2d_backward"]
NAMES = [each.name for each in CALL.inputs]
LARGE = OperatorCall(
    "adaptive_avg_pool2d_backward",
    (
        view_of_array("grad_output", np.ones((1, 2, 2), np.float32)),
        TensorView("self", TensorType(DTYPES["float32"], (1, 4096, 4096))),
    ),
    {},
)
"""Its answer is more than a connection holds: the server has to wait for its reader."""
MANY = 40
"""A device has 32 streams for copies."""


class Stalled:
    """Messages of a good call, so many of them and then no more until `release`."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._released = threading.Event()

    def __iter__(self) -> Iterator[bytes]:
        messages = chunked_messages(CALL, NAMES, 256)
        yield from (next(messages) for _ in range(self._count))
        self._released.wait(60)

    def release(self) -> None:
        self._released.set()


def held_bytes(server: Server) -> int:
    with aclgrad.Client(server.address) as client:
        return client.server_status().queue.running_bytes


@pytest.mark.parametrize("count", [2, 4])
def test_a_client_that_goes_in_the_middle(server: Server, count: int) -> None:
    for _ in range(4):
        stalled = Stalled(count)
        with open_channel(server) as channel:
            replies = open_chunked(channel, stalled)
            wait_until(lambda: held_bytes(server) > 0)
            replies.cancel()
        stalled.release()
    assert_idle(server)


def test_a_client_that_goes_while_it_reads(server: Server) -> None:
    for _ in range(2):
        with open_channel(server) as channel:
            replies = open_chunked(channel, chunked_messages(LARGE, ["grad_output"], 2**20))
            next(replies)
            next(replies)
            replies.cancel()
    assert_idle(server)


def test_the_clients_deadline_passes_in_the_middle(server: Server) -> None:
    stalled = Stalled(2)
    with open_channel(server) as channel, pytest.raises(grpc.RpcError) as caught:
        next(open_chunked(channel, stalled, timeout_s=0.3))
    stalled.release()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert_idle(server)


def test_a_header_alone_claims_no_memory(server: Server) -> None:
    stalled = Stalled(1)
    with open_channel(server) as channel:
        replies = open_chunked(channel, stalled)
        # Sent when the server is ready for chunks.
        assert replies.initial_metadata() is not None
        assert held_bytes(server) == 0
        stalled.release()
        with pytest.raises(grpc.RpcError) as caught:
            next(replies)
    assert isinstance(error_of(caught.value), aclgrad.InvalidFieldError)


def test_others_go_on_beside_many_that_stall(shared_server: Server, objects: Objects) -> None:
    """With their chunks and with shared memory: those that stall keep no stream."""
    stalled = Stalled(2)
    with (
        open_channel(shared_server) as one,
        # A connection carries fewer calls than a server has streams for copies.
        open_channel(shared_server) as other,
        open_channel(shared_server) as channel,
    ):
        expected = execute(channel, CALL)
        calls = [open_chunked(one, stalled)]
        wait_until(lambda: held_bytes(shared_server) > 0)
        each_bytes = held_bytes(shared_server)
        calls += [open_chunked(other if number % 2 else one, stalled) for number in range(1, MANY)]
        wait_until(lambda: held_bytes(shared_server) == MANY * each_bytes)
        assert execute_chunked(channel, CALL, NAMES, 256) == expected
        assert data_of(decode_response(send(channel, objects.share(CALL)))) == expected
        stalled.release()
        for each in calls:
            with pytest.raises(grpc.RpcError):
                list(each)
