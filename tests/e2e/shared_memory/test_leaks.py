"""Hundreds of good and bad calls, and calls that are given up, leave no file, no memory and no name behind."""

import os
from collections.abc import Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.sources import SharedRange
from aclgrad.tensors import view_of_array
from aclgrad.wire.messages import OperatorCall
from tests.e2e.fault_plans import assert_no_misuse, once, write_config
from tests.e2e.shared_objects import Objects, open_files, send, sharing_server, with_input
from tools.calling import wait_until
from tools.raw_calls import assert_idle, open_channel
from tools.serving import Server

GRAD = np.arange(256 * 256, dtype=np.float32).reshape(1, 256, 256)
SHAPE = (1, 300, 300)
SMALL = np.arange(1, 65, dtype=np.float32).reshape(1, 8, 8)
CALL = OperatorCall(
    "adaptive_avg_pool2d_backward", (view_of_array("grad_output", SMALL), view_of_array("self", SMALL)), {}
)


def calls(objects: Objects) -> list[tuple[OperatorCall, bool]]:
    """Returns good calls and bad ones, each with whether it is good."""
    good = objects.share(CALL, output_bytes=SMALL.nbytes)
    missing = SharedRange(f"/{objects.prefix}missing", 0, SMALL.nbytes)
    short = SharedRange(objects.create("short", bytes(8)).name, 0, SMALL.nbytes)
    objects.path("folder").mkdir()
    folder = SharedRange(f"/{objects.prefix}folder", 0, SMALL.nbytes)
    os.mkfifo(objects.path("fifo"))
    fifo = SharedRange(f"/{objects.prefix}fifo", 0, SMALL.nbytes)
    bad_inputs = [with_input(good, "self", each) for each in (missing, short, folder, fifo)]
    bad_outputs = [
        OperatorCall(CALL.operator, good.inputs, {}, {"out": each}) for each in (missing, short, folder, fifo)
    ]
    return [(good, True), (objects.share(CALL), True), *((each, False) for each in [*bad_inputs, *bad_outputs])]


def test_hundreds_of_calls(shared_server: Server, objects: Objects) -> None:
    with open_channel(shared_server) as channel, aclgrad.Client(shared_server.address) as client:

        def make(rounds: int) -> None:
            for call, is_good in given * rounds:
                if is_good:
                    send(channel, call)
                else:
                    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
                        send(channel, call)

        given = calls(objects)
        make(2)
        reserved = client.server_status().devices[0].pool.reserved_bytes
        before = open_files(shared_server)
        make(20)
        # A connection of an earlier test may go meanwhile; a leak would show in hundreds.
        assert open_files(shared_server) < before + 10
        pool = client.server_status().devices[0].pool
        assert (pool.allocated_bytes, pool.reserved_bytes) == (0, reserved)
    assert_idle(shared_server)


@pytest.fixture
def hanging_server(tmp_path: Path) -> Iterator[Server]:
    """Its first three kernels take two seconds."""
    faults = [{"kind": "hang", "at": 1, "count": 3, "duration_ms": 2000}]
    with sharing_server(tmp_path, "--acl-config", write_config(tmp_path, *faults)) as server:
        yield server
        assert_idle(server)
    assert_no_misuse(tmp_path)


def wait_for_work(server: Server, count: int) -> None:
    """So much runs or has been abandoned, and holds a stream."""
    with aclgrad.Client(server.address) as client:
        wait_until(lambda: client.server_status().devices[0].leased_stream_count == count)


@once
def test_calls_that_are_given_up(hanging_server: Server, objects: Objects) -> None:
    """The server may still write to what was lent: later calls get other memory."""
    with (
        aclgrad.Client(hanging_server.address, shared_memory=True, retries=0) as client,
        aclgrad.Client(hanging_server.address) as plain,
    ):
        for _ in range(3):
            with pytest.raises(aclgrad.DeadlinePassedError):
                client.adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=0.3)
            assert objects.names() == []
        expected = plain.adaptive_avg_pool2d_backward(GRAD, SHAPE)
        results = [client.adaptive_avg_pool2d_backward(GRAD, SHAPE) for _ in range(3)]
        # Now all kernels have ended and written.
        wait_for_work(hanging_server, 0)
        assert all(np.array_equal(result, expected) for result in results)
