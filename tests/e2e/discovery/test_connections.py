"""Connections that idle, and that grow old."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import write_config
from tools.serving import Server

GRAD = np.ones((1, 1, 1), np.float32)
AGE_S = 0.4

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


def test_calls_go_on_while_connections_grow_old(tmp_path: Path) -> None:
    """The first call takes longer than a connection may last, and is answered."""
    slow = {"kind": "slow_copy", "at": 1, "duration_ms": round(3000 * AGE_S)}
    flags = ("--acl-config", write_config(tmp_path, slow), "--max-connection-age-s", str(AGE_S))
    with Server(*flags) as server, aclgrad.Client(server.address, retries=0) as patient:
        start = time.monotonic()
        assert patient.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).sum() == 1
        assert time.monotonic() - start > 2 * AGE_S, "no call outlived its connection"
        with aclgrad.Client(server.address, channel_options=[("grpc.use_local_subchannel_pool", 1)]) as client:
            while time.monotonic() < start + 6 * AGE_S:
                assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).sum() == 1
