"""Pools that are too small: for one call, with both numbers in the error, and for ten clients at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

import aclgrad
from tests.e2e.fault_plans import once, write_config
from tests.serving import Server, run_to_end

pytestmark = once

CLIENTS = 10
CALLS = 20
SIZE = 256
GRAD = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
# Each value of the gradient is that of its quarter over the quarter's area.
TRUTH = np.kron(GRAD, np.ones((1, SIZE // 2, SIZE // 2), np.float32)) / (SIZE // 2) ** 2
BLOCK_BYTES = TRUTH.nbytes


@pytest.mark.parametrize("pool_bytes", [BLOCK_BYTES - 1, BLOCK_BYTES + 4096], ids=["one_block", "sum_of_blocks"])
def test_a_call_that_no_pool_of_this_size_can_hold_is_told_both_numbers(tmp_path: Path, pool_bytes: int) -> None:
    flags = ("--acl-config", write_config(tmp_path), "--pool-bytes", str(pool_bytes))
    with Server(*flags) as server, aclgrad.Client(server.address) as client:
        with pytest.raises(aclgrad.DeviceMemoryError, match="--pool-bytes") as caught:
            client.adaptive_avg_pool2d_backward(GRAD, TRUTH.shape)
        assert caught.value.retry_after_s is None, "to try again is of no use"
        assert f" {BLOCK_BYTES} bytes" in str(caught.value)
        assert f" {pool_bytes} bytes" in str(caught.value)
        assert caught.value.metadata == {"size_bytes": str(BLOCK_BYTES), "limit": str(pool_bytes)}
        assert client.server_status().devices[0].pool.allocated_bytes == 0
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2)).tolist() == GRAD.tolist()


def test_a_pool_that_cannot_hold_the_first_call_is_told_at_the_start(tmp_path: Path) -> None:
    flags = ("--acl-config", write_config(tmp_path), "--pool-bytes", "1000")
    finished = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", *flags)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert " 1000 bytes" in finished.stderr
    assert "raise --pool-bytes" in finished.stderr


@pytest.mark.parametrize("pass_through", [False, True], ids=["pooled", "pass_through"])
def test_ten_clients_share_memory_for_two(tmp_path: Path, pass_through: bool) -> None:
    """Each call is answered rightly or refused for memory, with a delay; nothing is left behind."""
    start = Barrier(CLIENTS)
    # A call holds its input of this size, without values, and its output.
    pool_bytes = 2 * 2 * (BLOCK_BYTES + 4096)
    flags = ("--streams", str(CLIENTS), "--pool-bytes", str(pool_bytes), "--pool-pass-through", str(pass_through))

    def call_again_and_again(address: str) -> list[np.ndarray | aclgrad.AclgradError]:
        outcomes: list[np.ndarray | aclgrad.AclgradError] = []
        with aclgrad.Client(address) as client:
            start.wait(60)
            for _ in range(CALLS):
                try:
                    outcomes.append(client.adaptive_avg_pool2d_backward(GRAD, TRUTH.shape, timeout_s=60))
                except aclgrad.AclgradError as error:
                    outcomes.append(error)
        return outcomes

    # Copies that take a while keep the memory, so that the calls do meet.
    slow = {"kind": "slow_copy", "at": 10, "count": CLIENTS * CALLS, "duration_ms": 5}
    with (
        Server("--acl-config", write_config(tmp_path, slow), *flags) as server,
        aclgrad.Client(server.address) as client,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        ends = [threads.submit(call_again_and_again, server.address) for _ in range(CLIENTS)]
        outcomes = [outcome for end in ends for outcome in end.result(60)]
        errors = [outcome for outcome in outcomes if isinstance(outcome, aclgrad.AclgradError)]
        assert 0 < len(errors) < len(outcomes)
        assert all(type(error) is aclgrad.DeviceMemoryError and error.retry_after_s for error in errors), errors
        for outcome in outcomes:
            if isinstance(outcome, np.ndarray):
                np.testing.assert_array_equal(outcome, TRUTH)
        device = client.server_status().devices[0]
        assert (device.pool.allocated_bytes, device.leased_stream_count) == (0, 0)
        assert device.pool.active_bytes == device.pool.workspace_bytes
        assert device.pool.peak_reserved_bytes <= pool_bytes
        # With the crowd gone, the first call has its memory.
        np.testing.assert_array_equal(client.adaptive_avg_pool2d_backward(GRAD, TRUTH.shape), TRUTH)
    report = tmp_path / "strict.txt"
    assert not report.exists() or report.read_text() == ""
