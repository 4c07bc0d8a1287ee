"""Kernels that fail with a code of each class, and kernels that run longer than the server allows."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

import aclgrad
from tests.e2e.fault_plans import (
    LIBRARY_TEXT,
    FaultyServer,
    assert_only_workspaces_are_held,
    assert_sound,
    assert_tells_nothing,
    call,
    call_together,
    errors_among,
    holdings,
    once,
)
from tools.calling import wait_until

pytestmark = once

Holdings = Callable[[bool], dict[str, int]]
with_and_without_copies = pytest.mark.parametrize("host_pointers", [True, False], ids=["host_pointers", "copies"])

# Code: what the caller gets, and whether it may try again.
CODES = {
    161002: (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False),
    361001: (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False),
    507051: (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False),
    207018: (aclgrad.DeviceMemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED, "DEVICE_MEMORY_EXHAUSTED", True),
    107020: (aclgrad.DeadlinePassedError, grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED", False),
}


@with_and_without_copies
@pytest.mark.parametrize("code", CODES)
def test_a_kernel_that_fails_is_the_error_of_its_class_for_that_call_alone(
    tmp_path: Path, sound_holdings: Holdings, code: int, host_pointers: bool
) -> None:
    kind, status, reason, may_retry = CODES[code]
    fault = {"kind": "launch_error", "at": 1, "code": code}
    with FaultyServer(tmp_path, fault, host_pointers=host_pointers) as server:
        (error,) = errors_among(call_together(server.address))
        assert type(error) is kind
        assert (error.code, error.reason) == (status, reason)
        assert bool(error.retry_after_s) is may_retry
        assert error.metadata == {"acl_error": str(code)}
        assert_tells_nothing(error)
        assert f"launch 1 {LIBRARY_TEXT}" in server.record_of(error)
        assert_sound(server, sound_holdings(host_pointers))


@with_and_without_copies
def test_a_kernel_that_takes_too_long_holds_its_own_stream_alone(tmp_path: Path, host_pointers: bool) -> None:
    fault = {"kind": "hang", "at": 1, "duration_ms": 2500}
    flags = ("--streams", "2", "--call-timeout-s", "1")
    with (
        FaultyServer(tmp_path, fault, flags=flags, host_pointers=host_pointers) as server,
        aclgrad.Client(server.address) as client,
    ):
        (error,) = errors_among([call(client)])
        # Not the client's own clock: the status is the server's.
        assert isinstance(error, aclgrad.DeadlinePassedError)
        assert (error.code, error.reason) == (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED")
        assert_tells_nothing(error)
        assert errors_among(call_together(server.address)) == []

        def is_given_back() -> bool:
            assert errors_among([call(client)]) == []
            return holdings(client)["leased"] == 0

        wait_until(is_given_back, 30)
        held = holdings(client)
        assert held["allocated_bytes"] == 0
        assert_only_workspaces_are_held(held)
        assert server.misuse == ""
