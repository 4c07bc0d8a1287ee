"""Both clients against a scripted service: which failures they make up for, how often, and for how long."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.errors import to_status
from tools.calling import maybe_await, wait_until

from .scripted_service import GRADIENT, REPLY, ScriptedService, abort_with

INPUTS = {"a": np.ones((1, 1, 1), np.float32)}
SOON_S = 0.001
NEVER_S = 1000.0

Answer = Callable[[grpc.ServicerContext], bytes]


def failing(error: aclgrad.AclgradError) -> Answer:
    return abort_with(error.code, error.message, to_status(error, "5f0c").SerializeToString())


def after(failures: int, failure: Answer) -> Answer:
    """Fails so many times and answers then."""
    left = iter(range(failures))
    return lambda context: REPLY if next(left, None) is None else failure(context)


DRAINING = failing(aclgrad.ServerDrainingError("stopping", retry_after_s=SOON_S))
TRANSIENT = {
    "unavailable_with_delay": DRAINING,
    "exhausted_with_delay": failing(aclgrad.ServerBusyError("full", retry_after_s=SOON_S)),
    "unavailable_without_details": abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed"),
}


@pytest.mark.parametrize("failure", TRANSIENT.values(), ids=TRANSIENT)
async def test_what_passes_is_made_up_for(
    connect: Callable[..., Any], service: ScriptedService, failure: Answer
) -> None:
    service.answer = after(2, failure)
    gradient = await maybe_await(connect(service.address, retries=2).execute("pool", INPUTS))
    assert gradient.tolist() == GRADIENT.tolist()
    assert len(service.requests) == 3
    assert len(set(service.requests)) == 1


async def test_a_retry_leaves_nothing_to_the_garbage_collector(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    """The traceback of a failed attempt has frames that have the arrays."""
    client = connect(service.address)
    gc.collect()
    gc.disable()
    try:
        for failures in (1, 9):
            service.answer = after(failures, DRAINING)
            array = np.ones((1, 1, 1), np.float32)
            ref = weakref.ref(array)
            with suppress(aclgrad.ServerDrainingError):
                await maybe_await(client.execute("pool", {"a": array}))
            del array
            await asyncio.to_thread(wait_until, lambda: ref() is None)  # noqa: B023 - awaited at once
    finally:
        gc.enable()


async def test_calls_about_the_server_are_repeated_too(connect: Callable[..., Any], service: ScriptedService) -> None:
    service.answer = lambda context: b"" if len(service.requests) > 1 else DRAINING(context)
    assert await maybe_await(connect(service.address).list_operators()) == []


@pytest.mark.parametrize("retries", [0, 1, 3])
async def test_no_more_attempts_than_allowed(
    connect: Callable[..., Any], service: ScriptedService, retries: int
) -> None:
    service.answer = DRAINING
    with pytest.raises(aclgrad.ServerDrainingError, match=r"^stopping$"):
        await maybe_await(connect(service.address, retries=retries).execute("pool", INPUTS))
    assert len(service.requests) == retries + 1


FINAL = {
    "exhausted_without_details": abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "too much"),
    "exhausted_without_delay": failing(aclgrad.DeviceMemoryError("says no delay")),
    "unavailable_without_delay": failing(aclgrad.DeviceLostError("for good")),
    "invalid_argument": failing(aclgrad.InvalidFieldError("wrong")),
    "internal": failing(aclgrad.ServerFaultError("oops")),
    "client_too_slow": failing(aclgrad.ClientTooSlowError("sent too little")),
}


@pytest.mark.parametrize("failure", FINAL.values(), ids=FINAL)
async def test_what_would_fail_again_is_not_repeated(
    connect: Callable[..., Any], service: ScriptedService, failure: Answer
) -> None:
    service.answer = failure
    with pytest.raises(aclgrad.AclgradError):
        await maybe_await(connect(service.address).execute("pool", INPUTS))
    assert len(service.requests) == 1


async def test_the_time_limit_bounds_all_attempts_together(
    connect: Callable[..., Any], service: ScriptedService
) -> None:
    remaining: list[float] = []

    def note_deadline(context: grpc.ServicerContext) -> bytes:
        remaining.append(context.time_remaining())
        return failing(aclgrad.ServerBusyError("full", retry_after_s=0.2))(context)

    service.answer = note_deadline
    client = connect(service.address, retries=1000)
    start = time.monotonic()
    with pytest.raises((aclgrad.ServerBusyError, aclgrad.DeadlinePassedError)):
        await maybe_await(client.execute("pool", INPUTS, timeout_s=1.5))
    assert time.monotonic() - start < 10
    assert 2 <= len(remaining) <= 8
    assert remaining == sorted(remaining, reverse=True)
    assert remaining[1] < 1.4


async def test_a_wait_beyond_the_time_limit_is_not_begun(connect: Callable[..., Any], service: ScriptedService) -> None:
    service.answer = failing(aclgrad.ServerBusyError("full", retry_after_s=NEVER_S))
    with pytest.raises(aclgrad.ServerBusyError):
        await maybe_await(connect(service.address, timeout_s=60).execute("pool", INPUTS))
    assert len(service.requests) == 1


def test_closing_the_client_ends_the_wait(service: ScriptedService) -> None:
    service.answer = failing(aclgrad.ServerBusyError("full", retry_after_s=NEVER_S))
    client = aclgrad.Client(service.address, timeout_s=None)
    ends: list[BaseException] = []

    def call() -> None:
        try:
            client.execute("pool", INPUTS)
        except aclgrad.AclgradError as error:
            ends.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    wait_until(lambda: bool(service.requests))
    client.close()
    caller.join(60)
    assert [type(each) for each in ends] == [aclgrad.CallCancelledError]
    assert len(service.requests) == 1


@pytest.mark.parametrize("end", ["close", "cancel"])
async def test_closing_or_cancelling_ends_the_wait_of_a_task(service: ScriptedService, end: str) -> None:
    service.answer = failing(aclgrad.ServerBusyError("full", retry_after_s=NEVER_S))
    async with aclgrad.AsyncClient(service.address, timeout_s=None) as client:
        task = asyncio.create_task(client.execute("pool", INPUTS))
        while not service.requests:
            await asyncio.sleep(0.001)
        if end == "close":
            await client.close()
        else:
            task.cancel()
        with pytest.raises(aclgrad.CallCancelledError if end == "close" else asyncio.CancelledError):
            await asyncio.wait_for(task, 60)
    assert len(service.requests) == 1


async def test_the_error_of_the_last_attempt_is_raised(connect: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(aclgrad.ConnectionLostError, match=r"nobody.*check that a server listens"):
        await maybe_await(connect(f"unix:{tmp_path}/nobody", connect_timeout_s=0.5).list_operators())


@pytest.mark.parametrize("options", [{"retries": -1}, {"connect_timeout_s": -1}, {"compression": "zip"}], ids=str)
async def test_bad_options_are_refused(connect: Callable[..., Any], options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="; give"):
        connect("127.0.0.1:1", **options)
