"""Both clients against a scripted service: which failures they make up for, how often, and for how long."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2

import aclgrad
from tools.calling import maybe_await, wait_until

from .conftest import Connect, begin, each_end, end_as
from .scripted_service import GRADIENT, INPUTS, REPLY, ScriptedService, abort_with, failing
from .scripted_streams import GRAD, SHAPE, ScriptedStreams

SOON_S = 0.001
NEVER_S = 1000.0

Answer = Callable[[grpc.ServicerContext], bytes]


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
async def test_what_passes_is_made_up_for(connect: Connect, service: ScriptedService, failure: Answer) -> None:
    service.answer = after(2, failure)
    gradient = await maybe_await(connect(service.address, retries=2).execute("pool", INPUTS))
    assert gradient.tolist() == GRADIENT.tolist()
    assert len(service.requests) == 3
    assert len(set(service.requests)) == 1


async def test_a_retry_leaves_nothing_to_the_garbage_collector(connect: Connect, service: ScriptedService) -> None:
    """The traceback of a failed attempt has frames that have the arrays."""
    client = connect(service.address, retries=1)
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


async def test_the_time_limit_bounds_all_attempts_together(connect: Connect, service: ScriptedService) -> None:
    now = 0.0
    remaining: list[float] = []

    def answer_after_a_minute(context: grpc.ServicerContext) -> bytes:
        nonlocal now
        now += 60.0
        remaining.append(context.time_remaining())
        return DRAINING(context)

    service.answer = answer_after_a_minute
    client = connect(service.address)
    client._retry_policy = replace(client._retry_policy, clock=lambda: now)  # noqa: SLF001
    with pytest.raises(aclgrad.ServerDrainingError):
        await maybe_await(client.execute("pool", INPUTS, timeout_s=100.0))
    assert len(remaining) == 2
    assert 70 < remaining[0] <= 101
    assert 10 < remaining[1] <= 41


@each_end
async def test_the_wait_for_a_retry_ends(connect: Connect, service: ScriptedService, end: str) -> None:
    service.answer = failing(aclgrad.ServerBusyError("full", retry_after_s=NEVER_S))
    client = connect(service.address, timeout_s=None)
    task = begin(client, "pool", INPUTS)
    await asyncio.to_thread(wait_until, lambda: bool(service.requests))
    await end_as(end, client, task)
    assert len(service.requests) == 1


CUT = abort_with(grpc.StatusCode.CANCELLED, "")


def reason_of_its_own(reason: str) -> bytes:
    """A status as a newer server may send it."""
    status = status_pb2.Status(code=grpc.StatusCode.CANCELLED.value[0], message="3 of 14 MB came within 60 s")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain="aclgrad"))
    return status.SerializeToString()


async def test_an_upload_that_was_cut_is_sent_again_once(connect: Connect, streams: ScriptedStreams) -> None:
    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        streams.receive(messages, context, 2)
        context.cancel()
        yield b""

    streams.script = script
    with pytest.raises(aclgrad.CallCutError, match=r"ended the call and gave no reason.*--client-timeout-s"):
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE))
    assert len(streams.attempts) == 2


async def test_a_deadline_tells_that_an_attempt_was_cut_before(connect: Connect, service: ScriptedService) -> None:
    def answer(context: grpc.ServicerContext) -> bytes:
        if len(service.requests) == 1:
            CUT(context)
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait(60)
        return REPLY

    service.answer = answer
    with pytest.raises(aclgrad.DeadlinePassedError, match=r"time limit.*before it.*ended the call") as caught:
        await maybe_await(connect(service.address, timeout_s=1).execute("pool", INPUTS))
    assert "--client-timeout-s" in (caught.value.remedy or "")


@pytest.mark.parametrize(("reason", "chunks"), [("CLIENT_TOO_SLOW", 0), ("A_REASON_OF_NEXT_YEAR", 3)])
async def test_the_reason_of_a_newer_server_arrives(
    connect: Connect, streams: ScriptedStreams, reason: str, chunks: int
) -> None:
    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        streams.receive(messages, context, chunks)
        abort_with(grpc.StatusCode.CANCELLED, "3 of 14 MB came within 60 s", reason_of_its_own(reason))(context)
        yield b""

    streams.script = script
    client = connect(streams.address)
    for attempts in range(1, 4):
        with pytest.raises(aclgrad.AclgradError, match=r"^3 of 14 MB came within 60 s$") as caught:
            await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
        assert (caught.value.reason, caught.value.code) == (reason, grpc.StatusCode.CANCELLED)
        assert len(streams.attempts) == attempts, "it is sent no more than once"
