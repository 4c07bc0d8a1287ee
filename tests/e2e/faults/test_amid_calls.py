"""Faults in the middle of many calls on several streams: as many errors as faults, and every gradient right."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aclgrad
from tests.e2e.fault_plans import (
    CLIENTS,
    FaultyServer,
    Outcome,
    assert_nothing_is_held,
    assert_tells_nothing,
    call,
    call_together,
    errors_among,
    holdings,
    once,
)
from tools.calling import wait_until

pytestmark = once

CALLS = 30
MIDDLE = CLIENTS * CALLS // 2

# Faults, the error that they end a call with, and how many calls in all: at least, at most.
FAULTS: dict[str, tuple[dict[str, Any], type[aclgrad.AclgradError], int, int]] = {
    "kernels_that_fail": (
        {"kind": "launch_error", "at": MIDDLE, "count": 5, "code": 361001},
        aclgrad.ServerFaultError,
        5,
        5,
    ),
    # A call makes three copies, of which several may fail.
    "copies_that_fail": (
        {"kind": "copy_error", "at": MIDDLE, "count": 5, "code": 507051},
        aclgrad.ServerFaultError,
        2,
        5,
    ),
    # A call is lost by two refusals, which may have met two calls, each of them saved by its second attempt.
    "memory_that_is_refused": ({"kind": "out_of_memory", "at": MIDDLE, "count": 12}, aclgrad.DeviceMemoryError, 3, 6),
}


def is_explained(server: FaultyServer, error: aclgrad.AclgradError) -> bool:
    return "by the fault plan" in server.record_of(error)


@pytest.mark.parametrize(
    ("fault", "kind", "least", "most"),
    [
        pytest.param(*row, id=name, marks=() if name == "kernels_that_fail" else pytest.mark.slow)
        for name, row in FAULTS.items()
    ],
)
def test_a_fault_ends_the_call_that_meets_it_and_no_other(
    tmp_path: Path, fault: dict[str, Any], kind: type[aclgrad.AclgradError], least: int, most: int
) -> None:
    with FaultyServer(tmp_path, fault, flags=("--streams", str(CLIENTS))) as server:
        each_clients: list[list[Outcome]] = []

        def call_again_and_again(client: aclgrad.Client) -> Outcome:
            outcomes = [call(client) for _ in range(CALLS)]
            each_clients.append(outcomes)
            return outcomes[-1]

        call_together(server.address, call_again_and_again)
        outcomes = [outcome for of_one in each_clients for outcome in of_one]
        assert len(outcomes) == CLIENTS * CALLS
        errors = errors_among(outcomes)
        assert all(type(error) is kind for error in errors), errors
        assert least <= len(errors) <= most
        for error in errors:
            assert_tells_nothing(error)
            wait_until(partial(is_explained, server, error))
        with aclgrad.Client(server.address) as client:
            assert errors_among([call(client)]) == []
            held = holdings(client)
        assert (held["allocated_bytes"], held["leased"]) == (0, 0)
        assert_nothing_is_held(held)
        assert server.misuse == ""
