"""Connections that idle, that grow old, and that are lost with their server."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import once, write_config
from tools.calling import AnyClient, maybe_await, wait_until
from tools.serving import Server

GRAD = np.ones((1, 1, 1), np.float32)
AGE_S = 0.5

PINGING = """
import sys
import aclgrad
options = [("grpc.keepalive_time_ms", 50), ("grpc.keepalive_timeout_ms", 20_000)]
with aclgrad.Client(sys.argv[1], retries=0, channel_options=options) as client:
    client.list_operators()
    sys.stdin.readline()
    client.list_operators()
"""
PINGS = 5
"""The core of gRPC, left to itself, cuts the connection at the third that comes too early."""


@pytest.mark.slow
def test_an_idle_client_that_pings_often_keeps_its_connection(server: Server) -> None:
    """The core answers pings that it finds too many by GOAWAY, and reports that in its log alone."""
    log = []
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PINGING, server.address],
        env={"GRPC_TRACE": "http_keepalive", "GRPC_VERBOSITY": "INFO"},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stderr is not None
        for line in client.stderr:
            log.append(line)
            if "goaway" in line.lower() or sum("Finish keepalive ping" in each for each in log) == PINGS:
                break
        _, rest = client.communicate("\n", timeout=60)
    told = "".join(log) + rest
    assert client.returncode == 0, told
    assert "too_many_pings" not in told
    assert "goaway" not in told.lower()


@pytest.fixture(scope="module")
def aging_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A first call took longer than a connection may last, and was answered."""
    slow = {"kind": "slow_copy", "at": 1, "duration_ms": round(4000 * AGE_S)}
    config = write_config(tmp_path_factory.mktemp("aging"), slow)
    with Server("--acl-config", config, "--max-connection-age-s", str(AGE_S)) as server:
        with aclgrad.Client(server.address, retries=0) as client:
            start = time.monotonic()
            assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).sum() == 1
            assert time.monotonic() - start > 2 * AGE_S, "no call outlived its connection"
        yield server


async def test_calls_go_on_while_connections_grow_old(connect: Callable[..., AnyClient], aging_server: Server) -> None:
    client = connect(aging_server.address, channel_options=[("grpc.use_local_subchannel_pool", 1)])
    end = time.monotonic() + 4 * AGE_S
    while time.monotonic() < end:
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)))
        assert gradient.sum() == 1


@once
@pytest.mark.slow
def test_a_lost_device_is_made_up_for_by_its_successor(tmp_path: Path) -> None:
    """One call: its server loses the device, ends, and is started again; the client notices nothing but the time."""
    address = f"unix:{tmp_path}/socket"
    config = write_config(tmp_path, {"kind": "launch_error", "at": 1})
    codes: list[int] = []
    released = threading.Event()

    def supervise() -> None:
        with Server("--acl-config", config, listen=(address,)) as server:
            codes.append(server.exit_code())
        with Server(listen=(address,)):
            released.wait(60)

    supervisor = threading.Thread(target=supervise)
    supervisor.start()
    try:
        with aclgrad.Client(address, retries=50, connect_timeout_s=60) as client:
            wait_until(lambda: Path(address.removeprefix("unix:")).exists())
            assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2), timeout_s=60).sum() == 1
    finally:
        released.set()
        supervisor.join(60)
    assert codes == [4]
