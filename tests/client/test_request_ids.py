"""Both clients: each call has an id, which the server, errors, reports and the log have too."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

import aclgrad
from aclgrad.errors import to_status
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_batches import add
from .scripted_service import INPUTS, REPLY, ScriptedService, abort_with

LOST = abort_with(grpc.StatusCode.UNAVAILABLE, "connection reset")


def note_ids(service: ScriptedService, *answers: Callable[[grpc.ServicerContext], bytes]) -> list[str]:
    """Has the service give these answers in turn, the last one again and again; returns the list of the ids it sees."""
    ids: list[str] = []

    def answer(context: grpc.ServicerContext) -> bytes:
        ids.append(dict(context.invocation_metadata())["x-request-id"])
        return answers[min(len(ids), len(answers)) - 1](context)

    service.answer = answer
    return ids


async def test_all_attempts_of_a_call_have_its_id(
    connect: Connect, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    ids = note_ids(service, LOST, LOST, lambda context: REPLY)
    reports: list[aclgrad.CallReport] = []
    client = connect(service.address, on_call=reports.append)
    with caplog.at_level(logging.INFO, "aclgrad"):
        await maybe_await(client.execute("pool", INPUTS))
        await maybe_await(client.execute("pool", INPUTS))
    first, second = ids[0], ids[3]
    assert ids == [first, first, first, second]
    assert first.rpartition("-")[0] == second.rpartition("-")[0] != ""
    assert first != second
    assert [(each.request_id, each.method, each.retries, each.error) for each in reports] == [
        (first, "ExecuteOperator", 2, None),
        (second, "ExecuteOperator", 0, None),
    ]
    assert reports[0].seconds > reports[1].seconds > 0
    # A retry is a line; a call that succeeds is none.
    told = [record.getMessage() for record in caplog.records]
    assert [(record.name, record.levelname) for record in caplog.records] == [("aclgrad", "WARNING")] * 2
    for number, line in enumerate(told, 1):
        assert line.startswith(f"{first} ExecuteOperator failed; retry {number} of 4, in ")
    assert all("ConnectionLostError: " in line and "connection reset" in line for line in told)


async def test_an_error_has_the_id_of_its_call(connect: Connect, service: ScriptedService) -> None:
    broken = to_status(aclgrad.ServerFaultError("broken"), "of the server").SerializeToString()
    ids = note_ids(service, abort_with(grpc.StatusCode.INTERNAL, "broken", broken), LOST)
    reports: list[aclgrad.CallReport] = []
    client = connect(service.address, retries=0, on_call=reports.append)
    with pytest.raises(aclgrad.ServerFaultError) as caught:
        await maybe_await(client.execute("pool", INPUTS))
    assert (caught.value.request_id, caught.value.is_from_server) == ("of the server", True)
    ways: tuple[Callable[[], Any], ...] = (
        lambda: client.execute("pool", INPUTS),
        client.list_operators,
        add(client.batch(), [1]).run,
    )
    for way in ways:
        with pytest.raises(aclgrad.ConnectionLostError) as lost:
            await maybe_await(way())
        assert (lost.value.request_id, lost.value.is_from_server) == (ids[-1], False)
        assert reports[-1].error is lost.value
    await maybe_await(client.close())
    with pytest.raises(aclgrad.CallCancelledError) as cancelled:
        await maybe_await(client.list_operators())
    assert cancelled.value.request_id
    # What is no call has no id.
    with pytest.raises(aclgrad.InvalidFieldError) as refused:
        await maybe_await(client.execute("pool", {"a": (1, 2)}))
    assert refused.value.request_id is None


async def test_an_id_of_the_callers_own(connect: Connect, service: ScriptedService) -> None:
    ids = note_ids(service, lambda context: REPLY)
    client = connect(service.address)

    async def call(name: str) -> None:
        with aclgrad.request_id(name):
            await maybe_await(client.execute("pool", INPUTS))

    await asyncio.gather(*(call(f"order-{number}") for number in range(4)))
    assert sorted(ids) == [f"order-{number}" for number in range(4)]
    await maybe_await(client.execute("pool", INPUTS))
    assert not ids[-1].startswith("order-")


@pytest.mark.parametrize("name", ["", "x" * 129, "two\nlines", "two words", "é", None, b"x"], ids=repr)
def test_an_id_that_no_log_should_hold(name: Any) -> None:
    given = aclgrad.request_id(name)
    with pytest.raises(aclgrad.InvalidSettingError, match="give 1 to 128 printable ASCII") as caught, given:
        pass
    assert caught.value.field == "request_id"


async def test_what_a_hook_raises_the_call_raises(connect: Connect, service: ScriptedService) -> None:
    def fail(report: aclgrad.CallReport) -> None:
        raise LookupError(report.request_id)

    with pytest.raises(LookupError, match=r"-1$"):
        await maybe_await(connect(service.address, on_call=fail).execute("pool", INPUTS))


def test_a_hook_may_raise_what_no_coroutine_lets_out(service: ScriptedService) -> None:
    nothing: Iterator[object] = iter(())
    with (
        aclgrad.Client(service.address, on_call=lambda report: next(nothing)) as client,
        pytest.raises(StopIteration),
    ):
        client.execute("pool", INPUTS)


async def test_a_wait_for_a_server_is_told(connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    client = connect("127.0.0.1:1", connect_timeout_s=0.5, timeout_s=30)
    with caplog.at_level(logging.WARNING, "aclgrad"), pytest.raises(aclgrad.ServerUnreachableError) as caught:
        await maybe_await(client.list_operators())
    told = [record.getMessage() for record in caplog.records]
    assert told
    beginning = f"{caught.value.request_id} ListOperators failed; looks again for a server, for up to 0.5 s, in 0."
    assert all(line.startswith(beginning) for line in told)


async def test_hostile_text_of_a_server_stays_one_line(
    connect: Connect, service: ScriptedService, caplog: pytest.LogCaptureFixture
) -> None:
    text = "gone\nFAKE LINE\r\n" + 2_000 * "x"
    note_ids(service, abort_with(grpc.StatusCode.UNAVAILABLE, text), lambda context: REPLY)
    with caplog.at_level(logging.WARNING, "aclgrad"):
        await maybe_await(connect(service.address).execute("pool", INPUTS))
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.isprintable()
    assert len(line) < 700
