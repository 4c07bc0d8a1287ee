"""Connections that grow old."""

import time
from pathlib import Path

import numpy as np

import aclgrad
from tests.e2e.fault_plans import write_config
from tools.serving import Server

GRAD = np.ones((1, 1, 1), np.float32)
AGE_S = 0.4


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
