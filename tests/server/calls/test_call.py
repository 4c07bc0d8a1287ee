"""Calls are counted until their reply has left, and late calls and slow clients are cut off."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import grpc.aio
import pytest

from aclgrad.errors import (
    AclgradError,
    ClientTooSlowError,
    DeadlinePassedError,
    ServerBusyError,
    ServerDrainingError,
)
from aclgrad_server.calls import open_calls
from aclgrad_server.calls.call import Call
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.limits import PROGRESS_BYTES
from aclgrad_server.statistics import RUN
from tests.server.fakes import FakeContext, settle
from tools.lab.hostile.judgement import MEMORY_REFUSAL

CLIENT_TIMEOUT_S = 60.0
CALL_TIMEOUT_S = 300.0


@pytest.fixture
def closed() -> list[str]:
    """The peers whose connections were to be closed."""
    return []


@pytest.fixture
def calls(closed: list[str]) -> OpenCalls:
    return OpenCalls(CALL_TIMEOUT_S, CLIENT_TIMEOUT_S, closed.extend)


Running = tuple[Call, "asyncio.Task[Any]"]


async def begin(
    calls: OpenCalls, behaviour: Callable[[Call], Coroutine[Any, Any, Any]], context: FakeContext | None = None
) -> Running:
    """Returns a call whose task has come as far as it can."""
    made: list[Call] = []

    async def handle() -> Any:
        made.append(calls.begin("Method", context or FakeContext(is_silent=True)))
        return await behaviour(made[0])

    task = asyncio.ensure_future(handle())
    await settle()
    return made[0], task


async def receive(call: Call) -> None:
    await call.read()


async def work(call: Call) -> None:
    call.works()
    await asyncio.get_running_loop().create_future()


async def reply(call: Call) -> None:
    call.works()
    call.replies()
    await asyncio.get_running_loop().create_future()


async def error_of(running: Running) -> AclgradError | None:
    """Returns why the call was cut, or None if it was not."""
    call, task = running
    await settle()
    if not task.done():
        return None
    with pytest.raises(asyncio.CancelledError):
        await task
    return call.take_cut()


def wait_longer(call: Call, seconds: float) -> None:
    """Has the server have waited for the client so much longer."""
    assert call.waits_since is not None
    call.waits_since -= seconds


async def test_deadline_is_the_clients_or_the_servers_whichever_comes_first(calls: OpenCalls) -> None:
    for remaining_s, limit_s in ((None, CALL_TIMEOUT_S), (7.0, 7.0), (1e9, CALL_TIMEOUT_S), (-1.0, -1.0)):
        before = time.monotonic()
        call = calls.begin("Method", FakeContext(remaining_s=remaining_s))
        assert before + limit_s <= call.deadline <= time.monotonic() + limit_s


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:1234", "ipv4:192.0.2.1"),
        ("ipv6:%5B2001:db8::1%5D:1234", "ipv6:%5B2001:db8::1%5D"),
        ("unix:", "unix"),
        # Names that clients have given their own ends.
        ("unix:/tmp/one:1", "unix"),
        ("unix:ipv4:192.0.2.1:1234", "unix"),
        ("unix-abstract:one", "unix"),
    ],
)
async def test_connections_of_one_host_have_one_address(calls: OpenCalls, peer: str, address: str) -> None:
    assert calls.begin("Method", FakeContext(peer=peer)).caller == address


async def test_a_message_that_was_waited_for_ahead_is_received(calls: OpenCalls) -> None:
    """The stage of a call in chunks is that of its client, however much comes at once."""
    call = calls.begin("ExecuteProgramChunked", FakeContext([b"header", b"chunk"]))
    calls.begin("GetServerStatus", FakeContext())
    assert calls.transfers() == (1, 0)
    await call.read()
    call.works()
    assert calls.transfers() == (0, 0)
    await call.peek()
    call.works()
    call.enter(RUN)
    assert await call.read() == b"chunk"
    call.moved(PROGRESS_BYTES)
    assert await call.read_or_end() is None
    assert calls.transfers() == (1, 0)
    call.works()
    await call.write(b"reply")
    assert calls.transfers() == (0, 1)


async def test_call_counts_until_its_reply_has_left_or_its_client_has_gone(calls: OpenCalls) -> None:
    """Whatever its code still does."""
    for _ in range(3):
        context = FakeContext()
        assert await calls.wait_until_none(60)
        call = calls.begin("ExecuteOperator", context)
        assert calls.active_count
        assert (calls.changed_at, calls.transfers()) == (call.start, (1, 0))
        assert not await calls.wait_until_none(0.001)
        context.end()
        assert not calls.active_count
        assert call.start < calls.changed_at == call.stage_since
        call.works()
        call.replies()
        call.end()
        assert calls.transfers() == (0, 0)


async def test_what_happens_at_the_end_happens_once_even_if_some_of_it_fails(calls: OpenCalls) -> None:
    context, ends = FakeContext(), []
    call = calls.begin("Method", context)
    call.at_end(lambda: ends.append("one"))
    call.at_end(lambda: ends.append(1 // 0))
    call.at_end(lambda: ends.append("another"))
    assert ends == []
    with pytest.raises(ZeroDivisionError):
        context.end()
    context.end()
    assert sorted(ends) == ["another", "one"]
    assert await calls.wait_until_none(60)
    call.at_end(lambda: ends.append("late"))
    assert ends[2:] == ["late"]


async def test_client_that_sends_nothing_is_cut_after_its_time(calls: OpenCalls, closed: list[str]) -> None:
    running = await begin(calls, receive)
    wait_longer(running[0], CLIENT_TIMEOUT_S - 1)
    calls.sweep()
    assert await error_of(running) is None
    wait_longer(running[0], 2)
    calls.sweep()
    assert closed == [], "the connection of a slow sender stays"
    error = await error_of(running)
    assert isinstance(error, ClientTooSlowError)
    assert "sent less than 1 MiB within 60 s (--client-timeout-s)" in str(error)
    assert error.remedy
    assert calls.slow_clients == 1


async def test_client_that_moves_enough_bytes_is_not_slow_nor_one_that_waits_for_the_server(calls: OpenCalls) -> None:
    working = await begin(calls, work)
    assert working[0].waits_since is None
    call, task = running = await begin(calls, receive)
    for size_bytes, is_slow in ((PROGRESS_BYTES - 1, True), (1, False), (PROGRESS_BYTES, False)):
        wait_longer(call, CLIENT_TIMEOUT_S + 1)
        call.moved(size_bytes)
        assert (call.waits_since < time.monotonic() - CLIENT_TIMEOUT_S) is is_slow
    calls.sweep()
    assert await error_of(running) is None
    assert await error_of(working) is None
    for each in (task, working[1]):
        each.cancel()


async def test_client_that_fetches_nothing_loses_its_connection_once(calls: OpenCalls, closed: list[str]) -> None:
    running = [await begin(calls, reply, FakeContext(peer="ipv4:192.0.2.1:7")) for _ in range(3)]
    for call, _ in running:
        wait_longer(call, CLIENT_TIMEOUT_S + 1)
    for _ in range(3):
        # gRPC may take its time to end the calls.
        calls.sweep()
        await settle()
    assert closed == ["ipv4:192.0.2.1:7"]
    assert "fetched less than 1 MiB of the reply" in str(await error_of(running[0]))
    assert calls.slow_clients == 3
    assert {call.outcome for call, _ in running} == {"CLIENT_TOO_SLOW"}


async def test_a_connection_that_finishes_other_calls_is_not_closed_for_one_reply(
    calls: OpenCalls, closed: list[str]
) -> None:
    """A proxy has one connection for many clients."""
    call, _ = running = await begin(calls, reply)
    wait_longer(call, CLIENT_TIMEOUT_S + 1)
    context = FakeContext()
    other, task = await begin(calls, reply, context)
    other.outcome = "OK"
    context.end()
    calls.sweep()
    assert (closed, await error_of(running)) == ([], None)
    wait_longer(call, 10 * CLIENT_TIMEOUT_S)
    calls.sweep()
    assert closed == [call.peer], "its memory is not held for ever"
    task.cancel()


async def test_an_address_has_so_many_calls_open_and_no_more(calls: OpenCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_calls, "MAX_OPEN_CALLS", 2)
    contexts = [FakeContext(peer=f"ipv4:192.0.2.1:{port}") for port in (5, 5, 6)]
    running = [await begin(calls, work, context) for context in contexts[:2]]
    calls.admit(running[1][0])
    running.append(await begin(calls, work, contexts[2]))
    with pytest.raises(ServerBusyError, match="this address has more than 2 calls open") as caught:
        calls.admit(running[2][0])
    assert caught.value.retry_after_s
    assert calls.refusals["address"] == 1
    elsewhere = await begin(calls, work, FakeContext(peer="ipv4:192.0.2.2:5"))
    calls.admit(elsewhere[0])
    contexts[0].end()
    calls.admit(running[2][0])
    for _, task in (*running, elsewhere):
        task.cancel()


async def test_call_beyond_its_deadline_is_cut_if_the_device_does_not_report_it(calls: OpenCalls) -> None:
    """But not if its reply is on its way."""
    call, _ = running = await begin(calls, work)
    replying, task = await begin(calls, reply)
    call.deadline = time.monotonic()
    calls.sweep()
    assert await error_of(running) is None
    call.deadline -= 1
    replying.deadline = call.deadline
    calls.sweep()
    assert isinstance(await error_of(running), DeadlinePassedError)
    assert await error_of((replying, task)) is None
    task.cancel()


async def test_handler_that_was_cut_is_told_the_first_reason_and_can_still_wait(calls: OpenCalls) -> None:
    """The cancellation is consumed: otherwise the status could not be sent."""

    async def behaviour(call: Call) -> str:
        try:
            await call.read()
        except asyncio.CancelledError:
            error = call.take_cut()
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        assert asyncio.current_task().cancelling() == 0
        return str(error)

    call, task = await begin(calls, behaviour)
    assert call.cut(ServerBusyError("first"))
    assert not call.cut(ServerBusyError("second"))
    assert await task == "first"


async def test_reader_is_ended_through_its_call_and_never_cancelled(calls: OpenCalls) -> None:
    """gRPC keeps a message for ever whose reader was cancelled."""
    told = asyncio.Event()

    class Context(FakeContext):
        async def read(self) -> bytes:
            await told.wait()
            return b"message"

    async def abort(_: Call, error: AclgradError) -> None:
        told.set()
        raise grpc.aio.AbortError(str(error))

    call, task = await begin(calls, receive, Context())
    call.abort = abort
    assert call.cut(ServerBusyError("no room"))
    assert not call.cut(ServerBusyError("second"))
    with pytest.raises(grpc.aio.AbortError, match="no room"):
        await task
    assert task.cancelling() == 0


async def test_call_that_is_over_is_not_cut(calls: OpenCalls) -> None:
    """The client has cancelled it, it has ended, or the client has gone since it was cut."""
    cancelled = await begin(calls, receive)
    cancelled[1].cancel()
    await asyncio.wait([cancelled[1]])
    assert cancelled[0].take_cut() is None
    contexts = [FakeContext(is_silent=True) for _ in range(2)]
    (ended, task), gone = [await begin(calls, receive, context) for context in contexts]
    contexts[0].end()
    assert not ended.cut(ServerBusyError("late"))
    await settle()
    assert not task.done()
    task.cancel()
    assert gone[0].cut(ServerBusyError("no room"))
    contexts[1].end()
    assert await error_of(gone) is None


async def test_oldest_calls_that_are_being_received_are_cut_first(calls: OpenCalls) -> None:
    behaviours = (work, receive, reply, receive, receive)
    running = [await begin(calls, behaviour) for behaviour in behaviours]
    assert calls.cut_oldest_unfinished(2) == 2
    errors = [await error_of(each) for each in running]
    assert [type(error) for error in errors] == [type(None), ServerBusyError, type(None), ServerBusyError, type(None)]
    assert errors[1].retry_after_s


async def test_messages_wait_and_new_calls_are_refused_while_memory_is_short(calls: OpenCalls) -> None:
    context = FakeContext([b"message"])
    calls.set_memory_pressure(1)
    _, task = await begin(calls, receive, context)
    assert context.read_count == 0
    calls.set_memory_pressure(0)
    await task
    assert context.read_count == 1
    other = calls.begin("Method", FakeContext())
    calls.set_memory_pressure(2)
    with pytest.raises(ServerBusyError, match="short of memory") as caught:
        calls.admit(other)
    assert caught.value.retry_after_s
    assert MEMORY_REFUSAL.fullmatch(f"{caught.value.code.name}: {caught.value.message}")
    calls.set_memory_pressure(0)
    calls.admit(other)


async def test_stopping_server_refuses_new_calls_and_those_without_a_message(calls: OpenCalls) -> None:
    silent = await begin(calls, receive)
    busy = await begin(calls, _receive_and_work, FakeContext([b"message"]))
    calls.refuse()
    with pytest.raises(ServerDrainingError, match="shutting down"):
        calls.admit(busy[0])
    assert calls.refusals["draining"] == 2
    assert isinstance(await error_of(silent), ServerDrainingError)
    assert await error_of(busy) is None
    busy[1].cancel()


async def _receive_and_work(call: Call) -> None:
    await call.read()
    await work(call)
