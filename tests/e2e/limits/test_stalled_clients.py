"""Clients that stall amid a unary call: the server keeps memory for them only for a while, and counts it."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall, encode_batch, encode_request
from tests.e2e.shared_objects import Objects
from tools.calling import wait_until
from tools.raw_calls import SERVICE, assert_idle, error_of
from tools.serving import Server

pytestmark = pytest.mark.once

SILENT = 38
MIB = 2**20
REPLY_BYTES = 8 * MIB
POOL_BYTES = 3 * REPLY_BYTES
"""For two replies, and not quite for another call."""
CALL = OperatorCall(
    "adaptive_avg_pool2d_backward",
    (
        view_of_array("grad_output", np.ones((2, 1, 1), np.float32)),
        TensorView("self", TensorType(DTYPES["float32"], (2, 1024, 1024))),
    ),
    {},
)
REQUESTS = {"ExecuteOperator": encode_request(CALL), "BatchExecuteOperators": encode_batch([encode_request(CALL)])}
SMALL_WINDOW = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024),
]
"""Of a channel that holds next to nothing of what nobody reads."""
FLAGS = ("--streams", "1", "--max-waiting-calls", "2")


def call_without_reading(channel: grpc.Channel, method: str) -> Any:
    """Makes a call whose reply stays on the way: grpc takes the messages of a stream when they are asked for."""
    return channel.unary_stream(SERVICE + method)(REQUESTS[method], timeout=60)


@pytest.fixture
def silence() -> Iterator[Callable[[], Iterator[bytes]]]:
    """Messages that do not come before the end of the test."""
    end = threading.Event()

    def wait() -> Iterator[bytes]:
        end.wait(60)
        yield from ()

    yield wait
    end.set()


OTHERS = (
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)


@pytest.mark.parametrize("method", OTHERS)
def test_other_services_cut_off_who_sends_no_request(
    brisk_server: Server, silence: Callable[[], Iterator[bytes]], method: str
) -> None:
    with brisk_server.channel() as channel, pytest.raises(grpc.RpcError, match="--client-timeout-s") as caught:
        next(channel.stream_stream(method)(silence(), timeout=60))
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_clients_that_send_no_message_are_cut_with_the_reason(
    brisk_server: Server, silence: Callable[[], Iterator[bytes]]
) -> None:
    server = brisk_server
    with server.channel() as channel:
        silent = [channel.stream_unary(SERVICE + "ExecuteOperator").future(silence()) for _ in range(SILENT)]
        with aclgrad.Client(server.address, timeout_s=60, retries=0) as other:
            gradient = other.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2))
        assert gradient.sum() == 1
        assert {type(error_of(call)) for call in silent} == {aclgrad.ClientTooSlowError}
        assert_idle(server)


@pytest.mark.parametrize("method", ["ExecuteOperator", pytest.param("BatchExecuteOperators", marks=pytest.mark.slow)])
def test_replies_that_nobody_reads_stay_admitted(method: str) -> None:
    with (
        Server(*FLAGS, "--pool-bytes", str(POOL_BYTES)) as server,
        grpc.insecure_channel(server.address, SMALL_WINDOW) as channel,
        aclgrad.Client(server.address, retries=0) as other,
    ):

        def admitted() -> tuple[int, int, int]:
            queue = other.server_status().queue
            return queue.running_count, queue.waiting_count, queue.running_bytes

        # Two replies fill the pool, two calls wait for it, and the others are refused.
        unread = [call_without_reading(channel, method) for _ in range(2)]
        wait_until(lambda: admitted() == (0, 0, 2 * REPLY_BYTES))
        late = [call_without_reading(channel, method) for _ in range(6)]
        wait_until(lambda: sum(not call.is_active() for call in late) == 4)
        refused = [call for call in late if not call.is_active()]
        assert all(isinstance(failure_of(call), aclgrad.ServerBusyError) for call in refused)
        assert admitted() == (0, 2, 2 * REPLY_BYTES)
        for call in (*unread, *late):
            call.cancel()
        assert_idle(server)


@pytest.mark.parametrize("method", REQUESTS)
def test_replies_that_nobody_reads_are_given_up(brisk_server: Server, method: str) -> None:
    with (
        grpc.insecure_channel(brisk_server.address, SMALL_WINDOW) as channel,
        aclgrad.Client(brisk_server.address, retries=0) as other,
    ):
        unread = call_without_reading(channel, method)
        wait_until(lambda: other.server_status().queue.running_bytes > 0)
        assert_idle(brisk_server)
        with pytest.raises(grpc.RpcError) as caught:
            next(unread)
        # The server closes the connection: nothing less frees the reply.
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_reply_to_inputs_in_shared_memory_stays_admitted(shared_server: Server, objects: Objects) -> None:
    request = encode_request(objects.share(CALL))
    with (
        grpc.insecure_channel(shared_server.address, SMALL_WINDOW) as channel,
        aclgrad.Client(shared_server.address) as other,
    ):
        unread = channel.unary_stream(SERVICE + "ExecuteOperator")(request, timeout=60)
        wait_until(lambda: other.server_status().queue.running_bytes == REPLY_BYTES)
        unread.cancel()
        wait_until(lambda: other.server_status().queue.running_bytes == 0)


def failure_of(call: Any) -> aclgrad.AclgradError:
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    return error_of(caught.value)
