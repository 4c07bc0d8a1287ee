"""Chunked calls that stall, end early or come too late: what they held is free soon, whoever gave up."""

import threading
from collections.abc import Iterator

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.tensors import DTYPES, TensorType, TensorView, view_of_array
from aclgrad.wire.chunks import chunk_prefix, encode_header
from aclgrad.wire.messages import OperatorCall
from tools.calling import wait_until
from tools.raw_calls import SMALL, assert_idle, chunked_messages, error_of, open_channel, open_chunked
from tools.serving import Server

pytestmark = pytest.mark.alone

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
CALLS_AT_ONCE = 2


@pytest.fixture(scope="module")
def patient_server() -> Iterator[Server]:
    with Server() as server:
        yield server


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


def wait_for_memory_in_use(server: Server) -> None:
    with aclgrad.Client(server.address) as client:
        wait_until(lambda: client.server_status().queue.running_bytes > 0, 30)


@pytest.mark.parametrize("count", [2, 4])
def test_a_client_that_goes_in_the_middle(patient_server: Server, count: int) -> None:
    for _ in range(2 * CALLS_AT_ONCE):
        stalled = Stalled(count)
        with open_channel(patient_server) as channel:
            replies = open_chunked(channel, stalled)
            wait_for_memory_in_use(patient_server)
            replies.cancel()
        stalled.release()
    assert_idle(patient_server)


def test_a_client_that_goes_while_it_reads(patient_server: Server) -> None:
    for _ in range(2 * CALLS_AT_ONCE):
        with open_channel(patient_server) as channel:
            replies = open_chunked(channel, chunked_messages(LARGE, ["grad_output"], 2**20))
            next(replies)
            next(replies)
            replies.cancel()
    assert_idle(patient_server)


def test_the_clients_deadline_passes_in_the_middle(patient_server: Server) -> None:
    stalled = Stalled(2)
    with open_channel(patient_server) as channel, pytest.raises(grpc.RpcError) as caught:
        next(open_chunked(channel, stalled, timeout_s=0.3))
    stalled.release()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert_idle(patient_server)


@pytest.fixture(scope="module")
def strict_server() -> Iterator[Server]:
    with Server("--call-timeout-s", "1") as server:
        yield server


def test_a_client_that_sends_nothing_more_loses_its_call(strict_server: Server) -> None:
    """The client has no deadline: the server's own limit ends the call and frees its place for others."""
    stalled = Stalled(2)
    with open_channel(strict_server) as channel, pytest.raises(grpc.RpcError) as caught:
        next(open_chunked(channel, stalled, timeout_s=None))
    stalled.release()
    assert isinstance(error_of(caught.value), aclgrad.DeadlinePassedError)
    assert_idle(strict_server)


def test_a_header_alone_claims_no_memory(patient_server: Server) -> None:
    stalled = Stalled(1)
    with open_channel(patient_server) as channel, aclgrad.Client(patient_server.address) as client:
        replies = open_chunked(channel, stalled)
        # Sent when the server is ready for chunks.
        assert replies.initial_metadata() is not None
        assert client.server_status().queue.running_bytes == 0
        stalled.release()
        with pytest.raises(grpc.RpcError) as caught:
            next(replies)
    assert isinstance(error_of(caught.value), aclgrad.InvalidFieldError)


@pytest.fixture(scope="module")
def brisk_server() -> Iterator[Server]:
    with Server("--client-timeout-s", "0.5") as server:
        yield server


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_client_that_stalls_is_cut_with_the_reason(brisk_server: Server, count: int) -> None:
    stalled = Stalled(count)
    with open_channel(brisk_server) as channel, pytest.raises(grpc.RpcError) as caught:
        next(open_chunked(channel, stalled, timeout_s=None))
    stalled.release()
    error = error_of(caught.value)
    assert isinstance(error, aclgrad.ClientTooSlowError)
    assert "--client-timeout-s" in error.message
    assert_idle(brisk_server)


def test_a_client_that_stalls_while_it_reads_loses_its_connection(brisk_server: Server) -> None:
    with open_channel(brisk_server) as channel:
        replies = open_chunked(channel, chunked_messages(LARGE, ["grad_output"], 2**20), timeout_s=None)
        next(replies)
        assert_idle(brisk_server)


def test_a_client_that_reads_nothing_more_loses_its_call(strict_server: Server) -> None:
    with open_channel(strict_server) as channel:
        replies = open_chunked(channel, chunked_messages(LARGE, ["grad_output"], 2**20), timeout_s=None)
        next(replies)
        assert_idle(strict_server)


def test_a_client_that_is_too_slow_is_told_so(strict_server: Server) -> None:
    late = threading.Event()

    def slow() -> Iterator[bytes]:
        zeros = bytes(4)
        inputs = tuple(TensorView(each.name, each.type) for each in CALL.inputs)
        yield encode_header(OperatorCall(CALL.operator, inputs, {}), NAMES, 256)
        for offset in range(0, CALL.inputs[0].type.size_bytes, len(zeros)):
            yield chunk_prefix(0, offset, len(zeros)) + zeros
            late.wait(0.05)

    with open_channel(strict_server) as channel, pytest.raises(grpc.RpcError) as caught:
        next(open_chunked(channel, slow(), timeout_s=None))
    late.set()
    assert isinstance(error_of(caught.value), aclgrad.DeadlinePassedError)
    assert_idle(strict_server)
