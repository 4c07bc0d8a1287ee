"""After a burst of large calls the server's memory goes back, to the system and to the device."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

import aclgrad
from aclgrad.v1 import operator_service_pb2 as pb
from tests.e2e.fault_plans import write_config
from tools.calling import wait_until
from tools.serving import Server

pytestmark = [pytest.mark.alone, pytest.mark.slow, pytest.mark.once]

SHAPE = (8, 64, 112, 112)
TENSOR_BYTES = 4 * 8 * 64 * 112 * 112
CALLS = 4


def burst(client: aclgrad.Client) -> None:
    grad_output = np.ones(SHAPE, np.float32)
    with ThreadPoolExecutor(CALLS) as threads:
        for end in [
            threads.submit(client.adaptive_avg_pool2d_backward, grad_output, SHAPE, timeout_s=60) for _ in range(CALLS)
        ]:
            end.result()


def test_memory_goes_back(tmp_path: Path) -> None:
    # Device memory is the server's own memory here, so that what RSS tells is both.
    config = write_config(tmp_path, host_pointers=False, strict=False)
    with Server("--acl-config", config, changes="idle_trim_s=2") as server, aclgrad.Client(server.address) as client:
        process = psutil.Process(server.process_id)
        before = process.memory_info().rss
        burst(client)
        # Peaks, for on a slow machine the memory may have gone back by now.
        assert pool_of(client).peak_reserved_bytes >= TENSOR_BYTES
        assert peak_rss(server.process_id) - before > TENSOR_BYTES
        # Looked at from outside: a question to the server would be a call.
        wait_until(lambda: process.memory_info().rss - before < TENSOR_BYTES)
        assert pool_of(client).reserved_bytes == 0
        burst(client)


def pool_of(client: aclgrad.Client) -> pb.PoolStatus:
    (device,) = client.server_status(timeout_s=60).devices
    return device.pool


def peak_rss(process_id: int) -> int:
    """Returns the bytes that the process had resident at most."""
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process_id}/status").read_text())
    return int(peak) * 1024
