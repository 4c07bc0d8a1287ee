"""A call that is given up while its kernel runs takes nothing from the calls after it."""

import re
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import write_config
from tools.calling import calls_in, wait_until
from tools.serving import Server

pytestmark = pytest.mark.once

SMALL = (np.ones((1, 2, 2), np.float32), (1, 4, 4))
HANG_S = "2"
"""More than a busy machine takes for any call of the self-test."""


def give_up(client: aclgrad.Client) -> None:
    with pytest.raises(aclgrad.DeadlinePassedError):
        client.adaptive_avg_pool2d_backward(*SMALL, timeout_s=0.3)


def test_what_a_late_call_held_comes_back_and_a_kernel_that_never_ends_is_found(tmp_path: Path) -> None:
    """Both without another call."""
    hangs = ({"kind": "hang", "at": 1, "duration_ms": 1000}, {"kind": "hang", "at": 3})
    flags = ("--acl-config", write_config(tmp_path, *hangs), "--streams", "1", "--hang-timeout-s", HANG_S)
    with Server(*flags) as server, aclgrad.Client(server.address, retries=0) as client:
        give_up(client)
        assert client.server_status().devices[0].leased_stream_count == 1
        wait_until(lambda: client.server_status().devices[0].leased_stream_count == 0)
        status = client.server_status()
        assert status.devices[0].pool.allocated_bytes == 0
        assert calls_in(status.queue) == 0
        assert client.adaptive_avg_pool2d_backward(*SMALL).sum() == 4
        give_up(client)
        assert server.exit_code() == 4
        assert re.search(r"device 0 (is lost|after the loss): .*the stream was still at work after \d+ ms", server.log)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hang_copy", "hang_allocation", "hang_launch"])
def test_a_driver_that_hangs_amid_a_call_ends_a_server_that_is_alive_until_then(tmp_path: Path, kind: str) -> None:
    flags = ("--acl-config", write_config(tmp_path, {"kind": kind, "at": 1}), "--hang-timeout-s", HANG_S)
    # Without a pool, each call asks the driver for memory.
    with (
        Server(*flags, changes="pool_pass_through") as server,
        aclgrad.Client(server.address, retries=0) as client,
    ):
        give_up(client)
        with urlopen(f"http://{server.admin}/livez", timeout=10) as reply:
            assert reply.status == 200
        assert server.exit_code() == 4
