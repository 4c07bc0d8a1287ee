"""Kernels, copies and memory that fail: an error of its class for the call that meets it, and the others are served."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad.errors import from_status
from aclgrad.products import STREAM_LIMITS, Product
from aclgrad.tensors import view_of_array
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import encode_program
from tests.e2e.fault_plans import (
    ATTRIBUTES,
    CLIENTS,
    INPUTS,
    LIBRARY_TEXT,
    OPERATOR,
    TRUTH,
    FaultyServer,
    Outcome,
    assert_sound,
    assert_tells_nothing,
    call,
    call_together,
    errors_among,
    once,
)
from tools.calling import wait_until
from tools.raw_calls import SERVICE, open_channel

pytestmark = once

INTERNAL = (aclgrad.ServerFaultError, grpc.StatusCode.INTERNAL, "INTERNAL_ERROR", False)
NO_MEMORY = (aclgrad.DeviceMemoryError, grpc.StatusCode.RESOURCE_EXHAUSTED, "DEVICE_MEMORY_EXHAUSTED", True)
LATE = (aclgrad.DeadlinePassedError, grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_PASSED", False)

ROUND = CLIENTS + 1
"""Calls that meet each fault together, and one to see what they left."""
COPIES = 3
"""Of a call: two inputs, and the output. All are queued before it is known that one fails."""


def kernels() -> list[tuple[dict[str, Any], tuple[Any, ...], str]]:
    codes = {161002: INTERNAL, 507051: INTERNAL, 207018: NO_MEMORY, 107020: LATE}
    places = {2 + ROUND * index: code for index, code in enumerate(codes)}
    return [
        ({"kind": "launch_error", "at": at, "code": places[at]}, codes[places[at]], f"launch {at}") for at in places
    ]


def copies() -> list[tuple[dict[str, Any], tuple[Any, ...], str]]:
    places = [COPIES + 1 + COPIES * ROUND * index + index for index in range(COPIES)]
    return [({"kind": "copy_error", "at": at, "code": 507051}, INTERNAL, f"copy {at}") for at in places]


def memory(at: int) -> list[tuple[dict[str, Any], tuple[Any, ...], str]]:
    """One refusal is overcome by a trim, so the second one is reported."""
    return [({"kind": "out_of_memory", "at": at, "count": 2}, NO_MEMORY, f"allocation {at + 1}")]


slow = pytest.mark.slow
SURVIVING: dict[str, Any] = {"stream_failure_mode": False}
"""Streams that stop at a fault lose the device."""
# The faults in their order, what the call that meets each ends with, and what the log says; whether a good call comes
# first; and whether the device takes host memory for its own.
PLANS = [
    pytest.param(kernels(), True, False, id="kernels"),
    pytest.param(kernels(), True, True, id="kernels_on_host_memory", marks=slow),
    pytest.param(copies(), True, False, id="copies"),
    pytest.param(memory(1), False, False, id="memory_of_the_output"),
    # Of the second attempt, which knows its size.
    pytest.param(memory(7), False, False, id="memory_of_the_workspace", marks=slow),
    pytest.param(memory(1), False, True, id="memory_of_the_workspace_alone", marks=slow),
]


@pytest.mark.parametrize(("plan", "is_sound_before", "host_pointers"), PLANS)
def test_a_fault_ends_the_call_that_meets_it_alone(
    tmp_path: Path, plan: list[tuple[dict[str, Any], Any, str]], is_sound_before: bool, host_pointers: bool
) -> None:
    faults = (fault for fault, *_ in plan)
    with FaultyServer(tmp_path, *faults, host_pointers=host_pointers, **SURVIVING) as server:
        free_bytes = {assert_sound(server)} if is_sound_before else set()
        for fault, (kind, status, reason, may_retry), place in plan:
            (error,) = errors_among(call_together(server.address))
            assert type(error) is kind
            assert (error.code, error.reason) == (status, reason)
            assert bool(error.retry_after_s) is may_retry
            if "code" in fault:
                assert error.metadata == {"acl_error": str(fault["code"])}
            elif fault["at"] == 1 and not host_pointers:
                assert error.metadata["size_bytes"] == str(TRUTH.nbytes // TRUTH.itemsize * 4)
            assert_tells_nothing(error)
            wait_until(partial(tells, server, error, f"{place} {LIBRARY_TEXT}"))
            free_bytes.add(assert_sound(server))
        assert len(free_bytes) == 1


def tells(server: FaultyServer, error: aclgrad.AclgradError, text: str) -> bool:
    return text in server.record_of(error)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ({"kind": "copy_error", "at": 6, "code": 507051}, aclgrad.ServerFaultError),
        # In the second attempt: in the first, the workspaces are not known.
        pytest.param({"kind": "out_of_memory", "at": 31, "count": 2}, aclgrad.DeviceMemoryError, marks=slow),
    ],
    ids=["copy", "memory"],
)
def test_a_fault_fails_one_step_of_a_program(
    tmp_path: Path, fault: dict[str, Any], kind: type[aclgrad.AclgradError]
) -> None:
    each = encode_request(OperatorCall(OPERATOR, tuple(view_of_array(*each) for each in INPUTS.items()), ATTRIBUTES))
    with FaultyServer(tmp_path, fault, **SURVIVING) as server, open_channel(server) as channel:
        reply = channel.unary_unary(SERVICE + "ExecuteProgram")(encode_program([each] * 8), timeout=60)
        message = pb.ExecuteProgramResponse.FromString(reply)
        (failed,) = (each for each in message.results if each.HasField("error"))
        assert type(from_status(failed.error)) is kind
        assert Counter(len(each.outputs) for each in message.results) == {1: 7, 0: 1}
        # Nothing of its output is hidden between the fields either.
        assert message.SerializeToString() == reply
        assert_sound(server)


CALLS = 30
MIDDLE = CLIENTS * CALLS // 2
# Faults on several streams, the error that they end a call with, and how many calls in all: at least, at most.
AMID: dict[str, tuple[dict[str, Any], type[aclgrad.AclgradError], int, int]] = {
    "kernels": ({"kind": "launch_error", "at": MIDDLE, "count": 5, "code": 361001}, aclgrad.ServerFaultError, 5, 5),
    # A call makes three copies, of which several may fail.
    "copies": ({"kind": "copy_error", "at": MIDDLE, "count": 5, "code": 507051}, aclgrad.ServerFaultError, 2, 5),
    # A call is lost by two refusals, which may have met two calls, each of them saved by its second attempt.
    "memory": ({"kind": "out_of_memory", "at": MIDDLE, "count": 12}, aclgrad.DeviceMemoryError, 3, 6),
}


@pytest.mark.parametrize(
    ("fault", "kind", "least", "most"),
    [pytest.param(*row, id=name, marks=() if name == "kernels" else slow) for name, row in AMID.items()],
)
def test_of_many_calls_on_several_streams_those_fail_that_meet_a_fault(
    tmp_path: Path, fault: dict[str, Any], kind: type[aclgrad.AclgradError], least: int, most: int
) -> None:
    with FaultyServer(tmp_path, fault, flags=("--streams", str(CLIENTS)), **SURVIVING) as server:
        outcomes: list[Outcome] = []

        def call_again_and_again(client: aclgrad.Client) -> Outcome:
            outcomes.extend(call(client) for _ in range(CALLS - 1))
            return call(client)

        outcomes += call_together(server.address, call_again_and_again)
        assert len(outcomes) == CLIENTS * CALLS
        errors = errors_among(outcomes)
        assert all(type(error) is kind for error in errors), errors
        assert least <= len(errors) <= most
        for error in errors:
            assert_tells_nothing(error)
            wait_until(partial(tells, server, error, "by the fault plan"))
        assert_sound(server)


def test_a_device_with_fewer_streams_left_than_asked_for_answers_every_call(tmp_path: Path) -> None:
    """Other processes use them; this one has a default stream, too."""
    callers, left = 16, 6
    elsewhere = {"product": Product.ATLAS_A2, "streams_elsewhere": STREAM_LIMITS[Product.ATLAS_A2] - 1 - left}
    flags = ("--streams", "16", "--max-waiting-calls", str(callers))
    with (
        FaultyServer(tmp_path, flags=flags, **elsewhere) as server,
        aclgrad.Client(server.address, retries=0) as client,
        ThreadPoolExecutor(callers) as threads,
    ):
        assert errors_among(list(threads.map(lambda _: call(client), range(6 * callers)))) == []
        assert 1 <= client.server_status().devices[0].stream_count <= left
        assert re.search("stream", server.log)
        assert server.misuse == ""
