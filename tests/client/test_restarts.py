"""Both clients while their server is down, restarts, does not answer, or is not ready."""

import socket
import threading
from pathlib import Path

import grpc
import pytest

import aclgrad
from aclgrad.testing import TestServer
from tools.calling import maybe_await, wait_until

from .conftest import Connect
from .scripted_service import INPUTS, ScriptedService, abort_with, serving


async def test_a_call_made_after_the_server_is_back_succeeds(connect: Connect, tmp_path: Path) -> None:
    """Whatever the calls found that were made before."""
    address = f"unix:{tmp_path}/socket"
    client = connect(address, retries=0)
    with serving(address):
        await maybe_await(client.execute("pool", INPUTS))
    for _ in range(3):
        # The first may meet the connection's end; the time may be over amid a look for the server.
        with pytest.raises((aclgrad.ConnectionLostError, aclgrad.DeadlinePassedError)):
            await maybe_await(client.execute("pool", INPUTS, timeout_s=0.2))
    with serving(address) as second:
        await maybe_await(client.execute("pool", INPUTS))
        assert len(second.requests) == 1


@pytest.mark.parametrize("connect_timeout_s", [0, 0.5])
async def test_the_wait_for_a_server_is_bounded(connect: Connect, tmp_path: Path, connect_timeout_s: float) -> None:
    client = connect(f"unix:{tmp_path}/nobody", connect_timeout_s=connect_timeout_s, timeout_s=None)
    with pytest.raises(aclgrad.ServerUnreachableError, match=r"nobody.*check that a server listens"):
        await maybe_await(client.list_operators())


async def test_a_listener_that_never_answers_is_no_server(connect: Connect) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        soon = [("grpc.min_reconnect_backoff_ms", 200)]
        client = connect(f"127.0.0.1:{port}", connect_timeout_s=0.2, timeout_s=None, channel_options=soon)
        with pytest.raises(aclgrad.ServerUnreachableError):
            await maybe_await(client.list_operators())


SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


async def test_a_server_that_is_ready(connect: Connect, server: TestServer) -> None:
    for timeout_s in (aclgrad.DEFAULT, None):
        await maybe_await(connect(server.target).wait_until_ready(timeout_s))


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
