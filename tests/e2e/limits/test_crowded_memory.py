"""Pools that are too small for ten clients at once."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest

import aclgrad
from aclgrad_server.limits import SMALL_BYTES, SMALL_POOL_BYTES
from tests.e2e.fault_plans import assert_no_misuse, once, write_config
from tools.serving import Server

pytestmark = once

CLIENTS = 10
CALLS = 10
SIZE = 256
GRAD = np.arange(4, dtype=np.float32).reshape(1, 2, 2)
# Each value of the gradient is that of its quarter over the quarter's area.
TRUTH = np.kron(GRAD, np.ones((1, SIZE // 2, SIZE // 2), np.float32)) / (SIZE // 2) ** 2
BLOCK_BYTES = TRUTH.nbytes
CALL_BYTES = GRAD.nbytes + BLOCK_BYTES
TWO_CALLS_BYTES = 2 * (BLOCK_BYTES + 4096)


@pytest.mark.parametrize(
    "refuses", [pytest.param(False, id="pool", marks=pytest.mark.slow), pytest.param(True, id="card")]
)
def test_ten_clients_share_memory_for_two(tmp_path: Path, refuses: bool) -> None:
    """Each call is answered rightly or refused for memory, with a delay; nothing is left behind.

    The server lets no more run than its pool can hold, but it does not know who else has memory of the card.
    """
    start = Barrier(CLIENTS)
    host = {"memory_bytes": TWO_CALLS_BYTES} if refuses else {}
    flags = ("--pool-bytes", str(2**30 if refuses else TWO_CALLS_BYTES), "--streams", str(CLIENTS))
    changes = "pool_pass_through" if refuses else ""

    def call_again_and_again(address: str) -> list[np.ndarray | aclgrad.AclgradError]:
        outcomes: list[np.ndarray | aclgrad.AclgradError] = []
        with aclgrad.Client(address, retries=0) as client:
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
        Server("--acl-config", write_config(tmp_path, slow, **host), *flags, changes=changes) as server,
        aclgrad.Client(server.address, retries=0) as client,
        ThreadPoolExecutor(CLIENTS) as threads,
    ):
        ends = [threads.submit(call_again_and_again, server.address) for _ in range(CLIENTS)]
        outcomes = [outcome for end in ends for outcome in end.result(60)]
        errors = [outcome for outcome in outcomes if isinstance(outcome, aclgrad.AclgradError)]
        assert len(errors) < len(outcomes)
        assert bool(errors) is refuses, errors
        assert all(type(error) is aclgrad.DeviceMemoryError and error.retry_after_s for error in errors), errors
        for outcome in outcomes:
            if isinstance(outcome, np.ndarray):
                np.testing.assert_array_equal(outcome, TRUTH)
        device = client.server_status().devices[0]
        assert (device.pool.allocated_bytes, device.leased_stream_count) == (0, 0)
        # A block that a card takes back counts until it has said so, and others may have its memory by then.
        more_bytes = CLIENTS * CALL_BYTES if refuses else SMALL_POOL_BYTES + CLIENTS * SMALL_BYTES
        assert device.pool.peak_reserved_bytes <= TWO_CALLS_BYTES + more_bytes
        if not refuses:
            with pytest.raises(aclgrad.LimitExceededError, match="--pool-bytes") as caught:
                client.adaptive_avg_pool2d_backward(GRAD, (1, 2 * SIZE, 2 * SIZE))
            assert not isinstance(caught.value, aclgrad.RetryableError), "to try again is of no use"
            told = {"size_bytes": str(GRAD.nbytes + 4 * BLOCK_BYTES), "limit": str(TWO_CALLS_BYTES)}
            assert (caught.value.field, caught.value.metadata) == ("call", told)
        # With the crowd gone, the first call has its memory.
        np.testing.assert_array_equal(client.adaptive_avg_pool2d_backward(GRAD, TRUTH.shape), TRUTH)
        server.ask_to_stop()
        assert server.exit_code() == 0
    assert_no_misuse(tmp_path)
