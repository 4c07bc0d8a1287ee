"""What surrounds every call: request ids, statuses and log lines, on a gRPC server with a scripted service."""

import asyncio
import gc
import logging
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from aclgrad import errors
from aclgrad.errors import from_status
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.services.handlers import Handlers
from tests.server.fakes import FakeContext, settle, wait_until

SERVICE = "test.Service"


async def reverse(message: bytes, call: Call) -> bytes:
    return message[::-1]


async def echo(call: Call) -> None:
    while (message := await call.read_or_end()) is not None:
        await call.write(message)


@dataclass
class Script:
    """A service whose methods do what `unary` and `stream` say."""

    unary: Callable[[bytes, Call], Awaitable[bytes]] = reverse
    stream: Callable[[Call], Awaitable[None]] = echo
    calls: OpenCalls = field(default_factory=lambda: OpenCalls(call_timeout_s=60, client_timeout_s=60))
    channel: grpc.aio.Channel = field(init=False)

    def begin(self, request: bytes = b"abc", **metadata: str) -> grpc.aio.UnaryUnaryCall:
        keys = tuple((key.replace("_", "-"), value) for key, value in metadata.items())
        return self.channel.unary_unary(f"/{SERVICE}/Unary")(request, metadata=keys, timeout=60)

    async def call(self, request: bytes = b"abc", **metadata: str) -> grpc.aio.UnaryUnaryCall:
        """Returns a call that has ended."""
        call = self.begin(request, **metadata)
        await call.code()
        return call

    def begin_stream(self) -> grpc.aio.StreamStreamCall:
        return self.channel.stream_stream(f"/{SERVICE}/Stream")(timeout=60)


@pytest.fixture
async def script() -> AsyncIterator[Script]:
    script = Script()
    handlers = Handlers(script.calls, Admission(1, 1))
    methods = {
        "Unary": handlers.unary("Unary", lambda message, call: script.unary(message, call)),
        "Stream": handlers.stream("Stream", lambda call: script.stream(call)),
    }
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as script.channel:
        yield script
    await server.stop(None)


async def trailer(call: Any, key: str) -> Any:
    return dict(await call.trailing_metadata()).get(key)


async def error_of(call: Any) -> errors.AclgradError:
    status = status_pb2.Status.FromString(await trailer(call, "grpc-status-details-bin"))
    assert (status.code, status.message) == ((await call.code()).value[0], await call.details())
    error = from_status(status)
    assert error is not None
    return error


def raising(error: BaseException) -> Callable[..., Awaitable[Any]]:
    async def behaviour(*arguments: object) -> None:
        raise error

    return behaviour


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("mine-42", True), ("x" * 128, True), (None, False), ("", False), ("x" * 129, False), ("two words", False)],
    ids=["fit", "longest", "none", "empty", "long", "words"],
)
async def test_reply_passes_through_with_a_fit_request_id(script: Script, given: str | None, is_kept: bool) -> None:
    calls = [await script.call(**{} if given is None else {"x_request_id": given}) for _ in range(2)]
    made = [await trailer(call, "x-request-id") for call in calls]
    assert all(made)
    assert [each == given for each in made] == [is_kept] * 2
    assert (made[0] == made[1]) is is_kept
    assert await calls[0] == b"cba"
    assert await trailer(calls[0], "grpc-status-details-bin") is None


async def test_stream_passes_through_with_the_request_id_and_its_error_comes_after_its_messages(script: Script) -> None:
    call = script.begin_stream()
    await call.write(b"abc")
    await call.done_writing()
    assert [message async for message in call] == [b"abc"]
    assert await trailer(call, "x-request-id")

    async def fail_later(call: Call) -> None:
        await call.write(b"first")
        raise errors.DeadlinePassedError("late")

    script.stream = fail_later
    call = script.begin_stream()
    assert await call.read() == b"first"
    assert type(await error_of(call)) is errors.DeadlinePassedError


async def test_call_without_a_message_is_malformed_and_one_while_the_server_stops_refused(script: Script) -> None:
    call = script.channel.stream_unary(f"/{SERVICE}/Unary")(timeout=60)
    await call.done_writing()
    assert type(await error_of(call)) is errors.MalformedRequestError
    script.calls.refuse()
    assert type(await error_of(await script.call())) is errors.ServerDrainingError


async def test_message_over_the_limit_is_logged_as_such(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    call = await script.call(bytes(5 * 2**20))
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await wait_until(lambda: "its message exceeds --max-message-bytes" in caplog.text)
    assert "MALFORMED" not in caplog.text


async def test_line_of_a_program_that_failed_says_how_many_steps_it_has(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(request: bytes, call: Call) -> bytes:
        call.step_count = 7 if request == b"program" else 1
        raise errors.LimitExceededError("too much")

    caplog.set_level(logging.INFO)
    script.unary = fail
    for request, told, steps in ((b"program", "Unary of 7 steps LIMIT_EXCEEDED in ", 7), (b"", "Unary LIMIT_", None)):
        caplog.clear()
        await script.call(request)
        (record,) = [each for each in caplog.records if each.name == "aclgrad_server.services.handlers"]
        assert told in record.getMessage()
        assert record.fields.get("steps") == steps


async def test_error_of_ours_becomes_its_status_and_one_line_of_the_log(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    violation = errors.Violation("inputs[self].shape", "has 2 dimensions", "send 3")
    script.unary = raising(errors.InvalidFieldError.of(violation))
    call = await script.call(x_request_id="mine-42")
    assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
    error = await error_of(call)
    assert type(error) is errors.InvalidFieldError
    assert error.violations == (violation,)
    assert error.request_id == await trailer(call, "x-request-id") == "mine-42"
    status = status_pb2.Status.FromString(await trailer(call, "grpc-status-details-bin"))
    assert [each.Is(error_details_pb2.ErrorInfo.DESCRIPTOR) for each in status.details].count(True) == 1
    (record,) = [each for each in caplog.records if each.name == "aclgrad_server.services.handlers"]
    for each in ("mine-42", "Unary", "ipv4:127.0.0.1:", ", trace -: ", "INVALID_FIELD", " ms", "has 2 dimensions"):
        assert each in record.getMessage()


@pytest.mark.parametrize("error", [errors.ServerBusyError("full", retry_after_s=0.1), MemoryError()], ids=repr)
async def test_retryable_error_tells_the_delay(script: Script, error: Exception) -> None:
    script.unary = raising(error)
    call = await script.call()
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    told_s = (await error_of(call)).retry_after_s
    assert told_s == (0.1 if isinstance(error, errors.AclgradError) else told_s)
    assert told_s


async def test_unexpected_exception_and_the_cause_of_an_error_keep_their_text(
    script: Script, caplog: pytest.LogCaptureFixture
) -> None:
    lost = errors.DeviceLostError("the device failed")
    lost.__cause__ = RuntimeError("what the device told")
    script.unary = raising(lost)
    with caplog.at_level(logging.INFO):
        assert await (await script.call()).details() == "the device failed"
    assert "what the device told" in caplog.text
    caplog.clear()
    script.unary = raising(OSError("the secret path"))
    call = await script.call()
    assert await call.code() is grpc.StatusCode.INTERNAL
    error = await error_of(call)
    assert type(error) is errors.ServerFaultError
    assert error.request_id == await trailer(call, "x-request-id")
    assert error.request_id in await call.details()
    assert "secret" not in await call.details()
    assert b"secret" not in await trailer(call, "grpc-status-details-bin")
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert error.request_id in record.getMessage()
    assert "the secret path" in record.exc_text


@pytest.mark.parametrize("kind", ["unary", "stream"])
async def test_call_that_is_cut_is_told_why(script: Script, kind: str) -> None:
    begun: asyncio.Future[Call] = asyncio.get_running_loop().create_future()

    async def behaviour(*arguments: Any) -> bytes:
        begun.set_result(arguments[-1])
        await asyncio.get_running_loop().create_future()
        return b""

    script.unary = script.stream = behaviour
    call = script.begin() if kind == "unary" else script.begin_stream()
    (await begun).cut(errors.ServerBusyError("no room", retry_after_s=1))
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(await error_of(call)) == "no room"
    await wait_until(lambda: not script.calls.active_count)
    # One whose message has not come can be cut as well.
    script.stream = echo
    call = script.begin_stream()
    await call.wait_for_connection()
    await wait_until(lambda: script.calls.active_count > 0)
    assert script.calls.cut_oldest_unfinished(8) == 1
    assert await call.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await wait_until(lambda: not script.calls.active_count)


class StalledContext(FakeContext):
    """A client that takes not even its status."""

    aborts = 0

    async def abort(self, *arguments: object) -> None:
        self.aborts += 1
        await asyncio.get_running_loop().create_future()


async def test_call_whose_status_is_not_fetched_is_cut_once_and_its_connection_closed() -> None:
    closed: list[str] = []
    calls = OpenCalls(call_timeout_s=60, client_timeout_s=0.001, close_connections=closed.extend)
    handler = Handlers(calls, Admission(1, 1)).unary("Unary", raising(errors.ServerBusyError("full")))
    context = StalledContext([b"message"])
    task = asyncio.ensure_future(handler.stream_unary(None, context))

    def has_ended() -> bool:
        calls.sweep()
        return task.done()

    await wait_until(has_ended)
    calls.sweep()
    assert task.cancelled()
    assert context.aborts == 1
    assert closed == [context.peer()]
    context.end()
    assert not calls.active_count


async def test_client_that_goes_away_cancels_its_call(script: Script, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    loop = asyncio.get_running_loop()
    begun, ended = loop.create_future(), loop.create_future()

    async def behaviour(message: bytes, call: Call) -> bytes:
        begun.set_result(None)
        try:
            return await loop.create_future()
        finally:
            call.at_end(lambda: ended.set_result(None))

    script.unary = behaviour
    call = script.begin()
    await begun
    call.cancel()
    await ended
    await wait_until(lambda: "was cancelled" in caplog.text)
    assert not script.calls.active_count


async def test_calls_that_are_reset_at_once_all_end(script: Script) -> None:
    for pause_s in 2 * (0.0, 0.0002, 0.002):
        calls = [script.begin() if each % 2 else script.begin_stream() for each in range(50)]
        await asyncio.sleep(pause_s)
        for call in calls:
            call.cancel()
    assert await (await script.call()) == b"cba"
    await wait_until(lambda: not script.calls.active_count)


async def test_client_whose_message_waits_for_others_is_not_slow() -> None:
    calls, admission = OpenCalls(call_timeout_s=60, client_timeout_s=0.0), Admission(1, 1)
    context = FakeContext([b"message"])
    admission.received("ipv4:192.0.2.1", 2**50)
    (await admission.large.slot("unix")).give_back()
    task = asyncio.ensure_future(Handlers(calls, admission).unary("Unary", reverse).stream_unary(None, context))
    await settle()
    calls.sweep()
    await settle()
    assert not task.done()
    assert context.read_count == 0
    task.cancel()


class Large:
    """Stands for the message of a call, or its tensors."""


@pytest.mark.parametrize("error", [errors.ServerBusyError("full"), errors.DeviceLostError("lost"), None], ids=repr)
@pytest.mark.parametrize("kind", ["unary", "stream"])
async def test_nothing_is_kept_of_a_call_that_failed_or_was_cut(
    script: Script, kind: str, error: errors.AclgradError | None
) -> None:
    """Without a collection: a server that waits for one holds the messages and tensors of many calls."""
    begun: asyncio.Future[tuple[Call, weakref.ref[Large]]] = asyncio.get_running_loop().create_future()

    async def behaviour(*arguments: Any) -> bytes:
        large = Large()
        begun.set_result((arguments[-1], weakref.ref(large)))
        if error is None:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(0)
        raise type(error)(str(error))

    script.unary = script.stream = behaviour
    gc.disable()
    try:
        client = script.begin() if kind == "unary" else script.begin_stream()
        call, large = await begun
        if error is None:
            call.cut(errors.ServerBusyError("no room"))
        assert await client.code() is not grpc.StatusCode.OK
        await wait_until(lambda: not script.calls.active_count)
        assert large() is None
    finally:
        gc.enable()
