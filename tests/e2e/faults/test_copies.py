"""Copies that fail, and copies that take longer than the caller waits, to the device and back."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

import aclgrad
from tests.e2e.fault_plans import (
    LIBRARY_TEXT,
    FaultyServer,
    assert_sound,
    assert_tells_nothing,
    call,
    call_together,
    errors_among,
    once,
)

pytestmark = once

STAGES = {"input_1": 1, "input_2": 2, "output": 3}
SLOW_MS = 600
Holdings = Callable[[bool], dict[str, int]]
per_stage = pytest.mark.parametrize("at", STAGES.values(), ids=STAGES)


@per_stage
def test_a_copy_that_fails_is_an_error_of_the_server_for_that_call_alone(
    tmp_path: Path, sound_holdings: Holdings, at: int
) -> None:
    with FaultyServer(tmp_path, {"kind": "copy_error", "at": at, "code": 507051}) as server:
        (error,) = errors_among(call_together(server.address))
        assert isinstance(error, aclgrad.ServerFaultError)
        assert (error.code, error.reason) == (grpc.StatusCode.INTERNAL, "INTERNAL_ERROR")
        assert error.retry_after_s is None
        assert error.metadata == {"acl_error": "507051"}
        assert_tells_nothing(error)
        assert f"copy {at} {LIBRARY_TEXT}" in server.record_of(error)
        assert_sound(server, sound_holdings(False))


@per_stage
def test_a_slow_copy_costs_time_and_nothing_else(tmp_path: Path, sound_holdings: Holdings, at: int) -> None:
    with FaultyServer(tmp_path, {"kind": "slow_copy", "at": at, "duration_ms": SLOW_MS}) as server:
        with aclgrad.Client(server.address) as client:
            (error,) = errors_among([call(client, timeout_s=SLOW_MS / 3000)])
        # Those after it wait for the stream that the slow one still holds.
        assert errors_among(call_together(server.address)) == []
        assert isinstance(error, aclgrad.DeadlinePassedError)
        assert error.code is grpc.StatusCode.DEADLINE_EXCEEDED
        assert_sound(server, sound_holdings(False))
