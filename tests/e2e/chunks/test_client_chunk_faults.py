"""Chunked calls of both clients on servers that fail or stop in the middle."""

import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import once, write_config
from tools.calling import AnyClient, maybe_await
from tools.serving import Server

pytestmark = once

Connect = Callable[..., AnyClient]
LARGE = np.ones((3, 1024, 1024), np.float32)


@pytest.mark.parametrize("copy", [2, 3], ids=["first_chunks", "later_chunks"])
async def test_a_device_that_is_lost_amid_the_chunks(connect: Connect, tmp_path: Path, copy: int) -> None:
    """An asyncio client may learn no more than that the call ended (see grpc.aio); both may try again."""
    config = write_config(tmp_path, {"kind": "copy_error", "at": copy, "code": 507015})
    with Server("--acl-config", config) as server:
        with pytest.raises((aclgrad.DeviceLostError, aclgrad.ConnectionLostError)):
            await maybe_await(connect(server.address, retries=0).adaptive_avg_pool2d_backward(LARGE, (3, 2, 2)))
        assert server.exit_code() == 4


@pytest.mark.parametrize("drain_s", ["0.2", "30"], ids=["cut", "drained"])
async def test_a_server_that_stops_amid_a_call(connect: Connect, tmp_path: Path, drain_s: str) -> None:
    config = write_config(tmp_path, {"kind": "hang", "at": 1, "duration_ms": 1500})
    with Server("--acl-config", config, "--drain-timeout-s", drain_s) as server:
        client = connect(server.address, retries=0)
        await maybe_await(client.list_operators())
        stopper = threading.Timer(0.7, server.ask_to_stop)
        stopper.start()
        if drain_s == "30":
            assert (await maybe_await(client.adaptive_avg_pool2d_backward(LARGE, (3, 2, 2)))).shape == (3, 2, 2)
        else:
            with pytest.raises(aclgrad.RetryableError):
                await maybe_await(client.adaptive_avg_pool2d_backward(LARGE, (3, 2, 2)))
        stopper.join()
        assert server.exit_code() in (0, 3)
