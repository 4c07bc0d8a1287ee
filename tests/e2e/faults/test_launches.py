"""Kernels and copies that fail: an error of its class for the call that meets it, and the next one is served."""

from pathlib import Path

import grpc
import pytest

import aclgrad
from tests.e2e.fault_plans import (
    CLIENTS,
    LIBRARY_TEXT,
    FaultyServer,
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

DEVICES = [pytest.param(False, id="copies"), pytest.param(True, id="host_pointers", marks=pytest.mark.slow)]
with_and_without_copies = pytest.mark.parametrize("host_pointers", DEVICES)

# Code: what the caller gets, and whether it may try again.
CODES = {
    161002: (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False),
    361001: (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False),
    507051: (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False),
    207018: (aclgrad.DeviceMemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED, "DEVICE_MEMORY_EXHAUSTED", True),
    107020: (aclgrad.DeadlinePassedError, grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED", False),
}
ROUND = CLIENTS + 1
"""Calls that meet each fault together, and one to see what they left."""
COPIES = 3
"""Of a call: two inputs, and the output."""


def assert_reported(server: FaultyServer, error: aclgrad.AclgradError, code: int, place: str) -> None:
    """As the table says, to the caller; the library's words are in the log alone."""
    kind, status, reason, may_retry = CODES[code]
    assert type(error) is kind
    assert (error.code, error.reason) == (status, reason)
    assert bool(error.retry_after_s) is may_retry
    assert error.metadata == {"acl_error": str(code)}
    assert_tells_nothing(error)
    wait_until(lambda: f"{place} {LIBRARY_TEXT}" in server.record_of(error))


@with_and_without_copies
def test_a_kernel_that_fails_is_the_error_of_its_class_for_that_call_alone(tmp_path: Path, host_pointers: bool) -> None:
    # The first call shows what a sound device has in use.
    places = {code: 2 + ROUND * index for index, code in enumerate(CODES)}
    faults = [{"kind": "launch_error", "at": at, "code": code} for code, at in places.items()]
    with FaultyServer(tmp_path, *faults, host_pointers=host_pointers) as server:
        with aclgrad.Client(server.address) as client:
            assert errors_among([call(client)]) == []
            sound = holdings(client)
        for code, at in places.items():
            (error,) = errors_among(call_together(server.address))
            assert_reported(server, error, code, f"launch {at}")
            assert_sound(server, sound)


def test_a_copy_that_fails_is_an_error_for_that_call_alone(tmp_path: Path) -> None:
    """All copies of a call are queued before it is known that one fails."""
    places = [COPIES + 1 + COPIES * ROUND * index + index for index in range(COPIES)]
    faults = [{"kind": "copy_error", "at": at, "code": 507051} for at in places]
    with FaultyServer(tmp_path, *faults) as server:
        with aclgrad.Client(server.address) as client:
            assert errors_among([call(client)]) == []
            sound = holdings(client)
        for at in places:
            (error,) = errors_among(call_together(server.address))
            assert_reported(server, error, 507051, f"copy {at}")
            assert_sound(server, sound)
