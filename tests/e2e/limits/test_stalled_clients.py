"""Clients that stall amid a unary call: the server keeps memory for them only for a while, and counts it."""

import threading
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.messages import OperatorCall, encode_request
from tools.calling import wait_until
from tools.raw_calls import SERVICE, assert_idle, error_of
from tools.serving import Server

pytestmark = pytest.mark.once

SILENT = 38
GRAD = np.ones((1, 1, 1), np.float32)
SMALL_WINDOW = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 1024),
]
"""Of a channel that holds next to nothing of what nobody reads."""


@pytest.fixture(scope="module")
def brisk_server() -> Iterator[Server]:
    """Waits for its clients for half a second."""
    with Server("--client-timeout-s", "0.5", "--streams", "1", "--max-waiting-calls", "2") as server:
        yield server


@pytest.fixture
def silence() -> Iterator[Callable[[], Iterator[bytes]]]:
    """Messages that do not come before the end of the test."""
    end = threading.Event()

    def wait() -> Iterator[bytes]:
        end.wait(60)
        yield from ()

    yield wait
    end.set()


def test_clients_that_send_no_message_are_cut_with_the_reason(
    brisk_server: Server, silence: Callable[[], Iterator[bytes]]
) -> None:
    with brisk_server.channel() as channel:
        silent = [channel.stream_unary(SERVICE + "ExecuteOperator").future(silence()) for _ in range(SILENT)]
        with aclgrad.Client(brisk_server.address, timeout_s=60, retries=0) as other:
            assert other.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).sum() == 1
        assert {type(error_of(call)) for call in silent} == {aclgrad.ClientTooSlowError}
        for method in ("grpc.health.v1.Health/Watch", "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"):
            with pytest.raises(grpc.RpcError, match="--client-timeout-s") as caught:
                next(channel.stream_stream(f"/{method}")(silence(), timeout=60))
            assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert_idle(brisk_server)


def test_replies_that_nobody_reads_are_given_up(brisk_server: Server) -> None:
    """grpc takes the messages of a stream when they are asked for, so the reply stays on the way."""
    output = TensorView("self", TensorType(DTYPES["float32"], (1, 2048, 1024)))
    request = encode_request(
        OperatorCall("adaptive_avg_pool2d_backward", (view_of_array("grad_output", GRAD), output), {})
    )
    with (
        grpc.insecure_channel(brisk_server.address, SMALL_WINDOW) as channel,
        aclgrad.Client(brisk_server.address, retries=0) as other,
    ):
        unread = channel.unary_stream(SERVICE + "ExecuteOperator")(request, timeout=60)
        wait_until(lambda: other.server_status().queue.running_bytes > 0)
        assert_idle(brisk_server)
        with pytest.raises(grpc.RpcError) as caught:
            next(unread)
        # The server closes the connection: nothing less frees the reply.
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
