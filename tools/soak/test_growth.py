"""A server under mixed calls for long: memory, threads and files stay what they are, and nothing is left behind.

`make soak` makes 100,000 calls on each kind of device, `make soak-short` 5,000.
"""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import aclgrad
from tools.calling import calls_in, wait_until
from tools.serving import Server, write_host_config
from tools.soak.traffic import SHARES, Caller

CALLS = int(os.environ.get("SOAK_CALLS", "5000"))
CALLERS = 6
ROUNDS = 50
WARM_UP_ROUNDS = 15
MEBIBYTE = 2**20

SETTLING_CALLS = 20_000
"""Until then the heap grows to what the largest calls take that meet each other."""
MAX_SLOPE_MIB = 2.0
"""Per 10,000 calls: a leak of 210 bytes a call fails. Samples deviate by 2 MiB, and a fit over 70,000 calls by 0.2."""
MAX_SETTLING_MIB = 80.0
"""Of a run that is over before it has settled: 30 to 45 MiB were seen. A leak of 20 KiB a call fails in 5,000."""

DEVICES: dict[str, dict[str, Any]] = {
    "host_pointers": {"host_pointers": True, "strict": False},
    "copies": {"host_pointers": False, "strict": False},
    "strict": {"host_pointers": False, "strict": True},
}


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("host", DEVICES.values(), ids=DEVICES)
def test_a_server_does_not_grow(tmp_path: Path, host: dict[str, Any]) -> None:
    report = tmp_path / "strict.txt"
    config = write_host_config(tmp_path, strict_report=str(report), **host)
    with Server("--acl-config", config, "--log-level", "warning") as server, aclgrad.Client(server.address) as client:
        process = psutil.Process(server.process_id)
        callers = [Caller(server.address, seed) for seed in range(CALLERS)]
        samples = []
        with ThreadPoolExecutor(CALLERS) as threads:
            for _ in range(ROUNDS):
                for end in [threads.submit(caller.call, CALLS // ROUNDS // CALLERS + 1) for caller in callers]:
                    end.result(600)
                # Between the rounds nothing is in flight but what callers gave up: samples of equal moments.
                wait_until(lambda: is_idle(client))
                samples.append((process.memory_info().rss, process.num_threads(), process.num_fds()))
        ends = sum((caller.ends for caller in callers), Counter())
        assert {end.partition(":")[0] for end in ends} == set(SHARES)
        print(f"\n{dict(sorted(ends.items()))}")
        assert_flat(np.array(samples))
        assert server.log == ""
    assert not report.exists() or report.read_text() == ""


def is_idle(client: aclgrad.Client) -> bool:
    status = client.server_status(timeout_s=60)
    held = [(device.pool.allocated_bytes, device.leased_stream_count) for device in status.devices]
    return held == [(0, 0)] and calls_in(status.queue) == 0


def assert_flat(samples: np.ndarray) -> None:
    """Checks the samples that follow the warm-up."""
    calls = np.arange(1, ROUNDS + 1)[WARM_UP_ROUNDS:] * CALLS / ROUNDS
    rss, threads, files = samples[WARM_UP_ROUNDS:].T
    slope, _ = np.polyfit(calls / 10_000, rss / MEBIBYTE, 1)
    print(f"RSS {slope:+.3f} MiB per 10,000 calls, deviation {np.std(rss) / MEBIBYTE:.2f} MiB; by round, in MiB:")
    print((samples[:, 0] // MEBIBYTE).tolist(), f"threads {threads.min()}-{threads.max()}, files {files.max()}")
    if calls[0] >= SETTLING_CALLS:
        assert slope < MAX_SLOPE_MIB
    else:
        assert (rss[-1] - samples[0, 0]) / MEBIBYTE < MAX_SETTLING_MIB
    # Threads of the pool come one by one, when all those before are busy.
    assert np.ptp(threads) <= 4
    # The connections of one round may still be closing.
    assert np.ptp(files) <= 2 * CALLERS
