"""A thousand good and bad calls, and calls that are given up, leave no file, no memory and no name behind."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil
import pytest

import aclgrad
from aclgrad.tensors import SharedRange, view_of_array
from aclgrad.wire.messages import OperatorCall
from tests.e2e.fault_plans import write_config
from tests.e2e.shared_objects import Objects, open_files, send, sharing_server, with_input
from tools.calling import maybe_await, wait_until
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


def test_a_thousand_calls(shared_server: Server, objects: Objects) -> None:
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
        make(100)
        # A connection of an earlier test may go meanwhile; a leak would show in hundreds.
        assert open_files(shared_server) < before + 10
        pool = client.server_status().devices[0].pool
        assert (pool.allocated_bytes, pool.reserved_bytes) == (0, reserved)
    assert_idle(shared_server)


@pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])
async def test_calls_that_are_given_up(
    tmp_path: Path, connect: Callable[..., Any], objects: Objects, host_pointers: bool
) -> None:
    """The server may still write to what was lent: later calls get other memory."""
    faults = [{"kind": "hang", "at": at, "duration_ms": 600} for at in (1, 2)]
    with sharing_server(
        tmp_path, "--acl-config", write_config(tmp_path, *faults, host_pointers=host_pointers)
    ) as server:
        client = connect(server.address, shared_memory=True, retries=0)
        for _ in range(2):
            with pytest.raises(aclgrad.DeadlinePassedError):
                await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=0.2))
            assert objects.names() == []
        with aclgrad.Client(server.address) as plain:
            expected = plain.adaptive_avg_pool2d_backward(GRAD, SHAPE)
        results = [await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE)) for _ in range(3)]
        await asyncio.sleep(0.7)  # until both kernels have ended and written
        assert all(np.array_equal(result, expected) for result in results)
        # A call gives back what the device is done with.
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
        assert_idle(server)


async def test_cancelled_and_closed_calls(tmp_path: Path, objects: Objects) -> None:
    faults = [{"kind": "hang", "at": at, "duration_ms": 500} for at in (1, 2, 3)]
    with sharing_server(tmp_path, "--acl-config", write_config(tmp_path, *faults)) as server:
        client = aclgrad.AsyncClient(server.address, shared_memory=True)
        task = asyncio.ensure_future(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
        while len(objects.names()) < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert objects.names() == []
        task = asyncio.ensure_future(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
        while len(objects.names()) < 2:
            await asyncio.sleep(0.001)
        await client.close()
        with pytest.raises(aclgrad.CallCancelledError):
            await task
        assert objects.names() == []

        ends: list[BaseException] = []

        def call(client: aclgrad.Client) -> None:
            try:
                client.adaptive_avg_pool2d_backward(GRAD, SHAPE)
            except aclgrad.AclgradError as error:
                ends.append(error)

        sync = aclgrad.Client(server.address, shared_memory=True)
        thread = threading.Thread(target=call, args=(sync,))
        thread.start()
        wait_until(lambda: len(objects.names()) == 2)
        sync.close()
        thread.join()
        assert isinstance(ends[0], aclgrad.CallCancelledError)
        assert objects.names() == []
        assert_idle(server)


PROGRAM = """
import sys, numpy, aclgrad
from aclgrad import _shared_memory
_shared_memory.PREFIX = sys.argv[2]
with aclgrad.Client(sys.argv[1], shared_memory=True) as client:
    client.adaptive_avg_pool2d_backward(numpy.ones((1, 256, 256), "float32"), (1, 300, 300))
"""


def test_a_client_that_is_killed_in_the_middle_of_a_call(tmp_path: Path, objects: Objects) -> None:
    faults = [{"kind": "hang", "at": 1, "duration_ms": 2000}]
    with sharing_server(tmp_path, "--acl-config", write_config(tmp_path, *faults)) as server:
        client = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, server.address, objects.prefix], stderr=subprocess.DEVNULL
        )
        with aclgrad.Client(server.address) as status:
            wait_until(lambda: status.server_status().queue.running_count == 1)
            files = psutil.Process(server.process_id).num_fds()
            assert len(objects.names()) == 2
            client.kill()
            client.wait()
            wait_until(lambda: objects.names() == [], 10)
            wait_until(lambda: status.server_status().queue.running_count == 0)
            wait_until(lambda: psutil.Process(server.process_id).num_fds() < files)
        assert_idle(server)
