"""Both clients: the wait for a server that is ready."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad.testing import serve
from tools.calling import maybe_await, wait_until
from tools.serving import Server

from .scripted_service import ScriptedService, abort_with

Connect = Callable[..., Any]
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


async def test_servers_that_are_ready(connect: Connect, server: Server) -> None:
    await maybe_await(connect(server.address).wait_until_ready())
    with serve() as testing:
        await maybe_await(connect(testing.target).wait_until_ready(None))


async def test_it_looks_until_the_server_is_ready(connect: Connect, service: ScriptedService) -> None:
    lost = abort_with(grpc.StatusCode.UNAVAILABLE, "reset")

    def answer(context: grpc.ServicerContext) -> bytes:
        return {1: lasting, 2: lost}.get(len(service.requests), lambda context: SERVING)(context)

    def lasting(context: grpc.ServicerContext) -> bytes:
        return NOT_SERVING

    service.answer = answer
    await maybe_await(connect(service.address).wait_until_ready(60))
    assert service.requests == [("/grpc.health.v1.Health/Check", b"")] * 3


async def test_what_was_seen_last_is_told(connect: Connect, service: ScriptedService) -> None:
    nobody = "127.0.0.1:1"
    with pytest.raises(aclgrad.DeadlinePassedError, match=rf"^{nobody}: .* not ready within 0.3 s; .*connect"):
        await maybe_await(connect(nobody).wait_until_ready(0.3))
    service.answer = lambda context: NOT_SERVING
    with pytest.raises(TimeoutError, match=r"not ready within 0\.3 s; last seen: its health is NOT_SERVING") as caught:
        await maybe_await(connect(service.address, timeout_s=0.3).wait_until_ready())
    assert isinstance(caught.value, aclgrad.DeadlinePassedError)

    def stand(context: grpc.ServicerContext) -> bytes:
        wait_until(lambda: not context.is_active())
        return NOT_SERVING

    service.answer = stand
    with pytest.raises(aclgrad.DeadlinePassedError, match=r"not ready within 0\.3 s; last seen: no reply$"):
        await maybe_await(connect(service.address).wait_until_ready(0.3))


async def test_a_server_that_can_not_say_is_an_error_at_once(connect: Connect, service: ScriptedService) -> None:
    service.answer = abort_with(grpc.StatusCode.UNIMPLEMENTED, "no such method")
    with pytest.raises(aclgrad.MethodNotServedError):
        await maybe_await(connect(service.address).wait_until_ready())
    with pytest.raises(aclgrad.InvalidSettingError, match=r"^timeout_s is 'x'"):
        await maybe_await(connect(service.address).wait_until_ready("x"))


def test_closing_ends_the_wait(service: ScriptedService) -> None:
    service.answer = lambda context: NOT_SERVING
    errors: list[Exception] = []
    client = aclgrad.Client(service.address)

    def wait() -> None:
        try:
            client.wait_until_ready(None)
        except aclgrad.AclgradError as error:
            errors.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: len(service.requests) > 1)
    client.close()
    waiting.join(60)
    assert [type(each) for each in errors] == [aclgrad.CallCancelledError]


async def test_a_task_that_waits_is_cancelled(service: ScriptedService) -> None:
    service.answer = lambda context: NOT_SERVING
    async with aclgrad.AsyncClient(service.address) as client:
        task = asyncio.create_task(client.wait_until_ready(None))
        while len(service.requests) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
