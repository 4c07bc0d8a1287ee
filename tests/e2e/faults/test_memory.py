"""Memory that is refused, for each block of a call: one refusal is overcome, two fail that call alone."""

from pathlib import Path

import grpc
import pytest

import aclgrad
from tests.e2e.fault_plans import (
    INPUTS,
    LIBRARY_TEXT,
    TRUTH,
    FaultyServer,
    assert_nothing_is_held,
    assert_tells_nothing,
    call_together,
    errors_among,
    holdings,
    once,
)
from tools.calling import wait_until

pytestmark = once

FLOAT_BYTES = 4
SIZES = [TRUTH.size * FLOAT_BYTES, INPUTS["grad_output"].nbytes, INPUTS["boxes"].nbytes]
"""Of the blocks, in their order, behind pinned memory; the workspace's is the library's choice."""

# Stage: number of its allocation, size of its block, whether the device takes host memory for its own.
STAGES = {
    "output": (2, SIZES[0], False),
    "input_1": (3, SIZES[1], False),
    "input_2": (4, SIZES[2], False),
    "workspace": (8, None, False),  # of the second attempt, which knows its size
    "workspace_alone": (1, None, True),
}


def stages(quick: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        ("at", "size_bytes", "host_pointers"),
        [
            pytest.param(*row, id=stage, marks=() if stage == quick else pytest.mark.slow)
            for stage, row in STAGES.items()
        ],
    )


def assert_nothing_is_kept(server: FaultyServer) -> None:
    assert errors_among(call_together(server.address)) == []
    with aclgrad.Client(server.address) as client:
        held = holdings(client)
    assert (held["allocated_bytes"], held["leased"]) == (0, 0)
    assert_nothing_is_held(held)
    assert server.misuse == ""


@stages("workspace")
def test_one_refusal_is_overcome_by_a_trim(
    tmp_path: Path, at: int, size_bytes: int | None, host_pointers: bool
) -> None:
    fault = {"kind": "out_of_memory", "at": at}
    with FaultyServer(tmp_path, fault, host_pointers=host_pointers) as server:
        assert errors_among(call_together(server.address)) == []
        with aclgrad.Client(server.address) as client:
            pool = client.server_status().devices[0].pool
        assert (pool.retry_count, pool.out_of_memory_count) == (1, 0)
        assert_nothing_is_kept(server)


@stages("output")
def test_two_refusals_fail_that_call_alone(
    tmp_path: Path, at: int, size_bytes: int | None, host_pointers: bool
) -> None:
    fault = {"kind": "out_of_memory", "at": at, "count": 2}
    with FaultyServer(tmp_path, fault, host_pointers=host_pointers) as server:
        (error,) = errors_among(call_together(server.address))
        assert isinstance(error, aclgrad.DeviceMemoryError)
        assert (error.code, error.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "DEVICE_MEMORY_EXHAUSTED")
        assert error.retry_after_s
        asked_bytes = int(error.metadata["size_bytes"])
        assert asked_bytes == size_bytes if size_bytes else asked_bytes not in SIZES
        assert_tells_nothing(error)
        # The second refusal is what is reported.
        wait_until(lambda: f"allocation {at + 1} {LIBRARY_TEXT}" in server.record_of(error))
        assert_nothing_is_kept(server)
