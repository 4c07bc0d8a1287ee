"""Chunked calls that stall or end early: what they held is free soon, and others go on."""

import threading
from collections.abc import Iterator

import grpc
import pytest

import aclgrad
from aclgrad.wire.messages import decode_response
from tests.e2e.shared_objects import Objects, send
from tools.calling import wait_until
from tools.raw_calls import (
    SMALL,
    assert_idle,
    chunked_messages,
    data_of,
    execute,
    execute_chunked,
    open_channel,
    open_chunked,
)
from tools.serving import Server

CALL = SMALL["adaptive_avg_pool2d_backward"]
NAMES = [each.name for each in CALL.inputs]
MANY = 40
"""A device has 32 streams for copies."""


def held_bytes(server: Server) -> int:
    with aclgrad.Client(server.address) as client:
        return client.server_status().queue.running_bytes


def test_others_go_on_beside_many_that_stall_and_then_go(shared_server: Server, objects: Objects) -> None:
    """With their chunks and with shared memory: those that stall keep no stream."""
    end = threading.Event()

    def stalled() -> Iterator[bytes]:
        messages = chunked_messages(CALL, NAMES, 256)
        yield from (next(messages), next(messages))
        end.wait(60)

    with (
        open_channel(shared_server) as one,
        # A connection carries fewer calls than a server has streams for copies.
        open_channel(shared_server) as other,
        open_channel(shared_server) as channel,
    ):
        expected = execute(channel, CALL)
        calls = [open_chunked(one, stalled())]
        wait_until(lambda: held_bytes(shared_server) > 0)
        each_bytes = held_bytes(shared_server)
        calls += [open_chunked(other if number % 2 else one, stalled()) for number in range(1, MANY)]
        wait_until(lambda: held_bytes(shared_server) == MANY * each_bytes)
        assert execute_chunked(channel, CALL, NAMES, 256) == expected
        assert data_of(decode_response(send(channel, objects.share(CALL)))) == expected
        for each in calls[::2]:
            each.cancel()
        wait_until(lambda: held_bytes(shared_server) == MANY // 2 * each_bytes)
        end.set()
        for each in calls:
            with pytest.raises(grpc.RpcError):
                list(each)
    assert_idle(shared_server)
