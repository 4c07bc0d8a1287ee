"""Both clients against a scripted service that ends calls itself, with a reason and without."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2

import aclgrad
from tools.calling import maybe_await

from .scripted_service import REPLY, ScriptedService, abort_with
from .scripted_streams import GRAD, SHAPE, ScriptedStreams

Connect = Callable[..., Any]
INPUTS = {"a": np.ones((1, 1, 1), np.float32)}
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


async def test_a_message_that_was_cut_is_sent_again_once(connect: Connect, service: ScriptedService) -> None:
    service.answer = CUT
    with pytest.raises(aclgrad.CallCutError) as caught:
        await maybe_await(connect(service.address).execute("pool", INPUTS))
    assert caught.value.code is grpc.StatusCode.CANCELLED
    assert len(service.requests) == 2


async def test_a_stopping_server_cuts_once_and_its_successor_answers(
    connect: Connect, service: ScriptedService
) -> None:
    answers = iter([abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed"), CUT])
    service.answer = lambda context: next(answers, lambda context: REPLY)(context)
    await maybe_await(connect(service.address).execute("pool", INPUTS))
    assert len(service.requests) == 3


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


@pytest.mark.parametrize("reason", ["CLIENT_TOO_SLOW", "A_REASON_OF_NEXT_YEAR"])
@pytest.mark.parametrize("chunks", range(5))
async def test_the_reason_of_a_newer_server_arrives(
    connect: Connect, streams: ScriptedStreams, reason: str, chunks: int
) -> None:
    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        streams.receive(messages, context, chunks)
        abort_with(grpc.StatusCode.CANCELLED, "3 of 14 MB came within 60 s", reason_of_its_own(reason))(context)
        yield b""

    streams.script = script
    client = connect(streams.address)
    for attempts in range(1, 11):
        with pytest.raises(aclgrad.AclgradError, match=r"^3 of 14 MB came within 60 s$") as caught:
            await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
        assert (caught.value.reason, caught.value.code) == (reason, grpc.StatusCode.CANCELLED)
        assert len(streams.attempts) == attempts, "it is sent no more than once"


@pytest.mark.parametrize("reason", ["CLIENT_TOO_SLOW", "A_REASON_OF_NEXT_YEAR"])
async def test_the_reason_of_a_newer_server_arrives_of_a_message(
    connect: Connect, service: ScriptedService, reason: str
) -> None:
    service.answer = abort_with(grpc.StatusCode.CANCELLED, "", reason_of_its_own(reason))
    with pytest.raises(aclgrad.AclgradError, match=r"^3 of 14 MB came within 60 s$") as caught:
        await maybe_await(connect(service.address).execute("pool", INPUTS))
    assert caught.value.reason == reason
    assert len(service.requests) == 1
