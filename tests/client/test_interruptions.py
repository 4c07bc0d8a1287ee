"""Both clients: whatever comes out of what a call waits for, nothing stays claimed, and the next call works."""

# ruff: noqa: SLF001 - what is claimed shows nowhere else

import asyncio
import gc
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await

from .scripted_service import INPUTS, REPLY, ScriptedService, failing

SMALL = np.ones((1, 1, 1), np.float32)
LARGE = np.ones((300, 1000), np.float32)
HUGE = np.ones((2200, 1000), np.float32)
SQUARE = np.ones((520, 520), np.float32)


async def large(client: Any) -> Any:
    return await maybe_await(client.tanh_backward(LARGE.T, LARGE.T))


async def chunked(client: Any) -> Any:
    return await maybe_await(client.tanh_backward(HUGE, HUGE))


async def batch(client: Any) -> Any:
    calls = client.batch()
    calls.adaptive_avg_pool2d_backward(SMALL, (1, 2, 2))
    return await maybe_await(calls.run())


async def program(client: Any, array: np.ndarray = SMALL) -> Any:
    steps = client.program()
    return await maybe_await(steps.run(steps.tanh_backward(steps.tanh_backward(array, array), array.T)))


async def large_program(client: Any) -> Any:
    return await program(client, SQUARE)


async def chunked_program(client: Any) -> Any:
    client._requirements.learn(aclgrad.MessageTooLargeError("too large", metadata={"limit": "2000"}))
    return await program(client, LARGE[:20, :20])


async def query(client: Any) -> Any:
    return await maybe_await(client.list_operators())


async def ready(client: Any) -> Any:
    return await maybe_await(client.wait_until_ready(30.0))


POINTS: list[tuple[Callable[[Any], Any], str]] = [
    (large, "bind"),
    (large, "beside"),
    (large, "message"),
    (chunked, "bind"),
    (chunked, "chunks"),
    (batch, "message"),
    (program, "message"),
    (large_program, "beside"),
    (chunked_program, "chunks"),
    (chunked_program, "bind"),
    (query, "message"),
    (ready, "bind"),
    (ready, "message"),
]
RAISED = [
    RuntimeError("no thread"),
    MemoryError(),
    OSError(24, "Too many open files"),
    StopIteration(),
    GeneratorExit(),
]
INTERRUPTS = {aclgrad.Client: KeyboardInterrupt(), aclgrad.AsyncClient: asyncio.CancelledError()}


def raising(error: BaseException, original: Callable[..., Any], *, is_late: bool) -> Callable[..., Any]:
    """Raises the error, in place of what it stands for or after it."""

    async def wait(*arguments: Any) -> None:
        if is_late:
            await original(*arguments)
        raise error

    def act(*arguments: Any) -> None:
        if is_late:
            original(*arguments)
        raise error

    return wait if inspect.iscoroutinefunction(original) else act


async def interrupt(
    monkeypatch: pytest.MonkeyPatch,
    client: Any,
    point: str,
    error: BaseException,
    call: Callable[[Any], Any],
    **how: bool,
) -> None:
    """Makes a call of which the error comes out, and looks what it leaves."""
    # No coroutine lets StopIteration out, a test's neither.
    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with monkeypatch.context() as patch:
        patch.setattr(client._transport, point, raising(error, getattr(client._transport, point), **how))
        with pytest.raises(expected):
            await call(client)
    assert not any(each.calls for each in client._channels._open)
    budget = client._retry_policy.budget
    assert (budget._under_way, budget._bytes_under_way, budget._held, budget._held_bytes) == (0, 0, 0, 0)
    if client._regions is not None:
        assert client._regions._named == set(client._regions._free)
    await call(client)


@pytest.mark.parametrize("is_late", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("error", [*RAISED, None], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("call", "point"), POINTS, ids=lambda each: getattr(each, "__name__", each))
async def test_nothing_stays_claimed(
    monkeypatch: pytest.MonkeyPatch,
    client: Any,
    call: Callable[[Any], Any],
    point: str,
    error: BaseException | None,
    is_late: bool,
) -> None:
    """None is Ctrl-C, or that the task is cancelled."""
    await interrupt(monkeypatch, client, point, error or INTERRUPTS[type(client)], call, is_late=is_late)


async def shared(client: Any) -> None:
    # The array that has the output of the region goes at once.
    await maybe_await(
        client.adaptive_avg_pool2d_backward(LARGE[None], (1, *LARGE.shape), out=np.empty_like(LARGE[None]))
    )


async def shared_program(client: Any) -> None:
    steps = client.program()
    gradients = [steps.adaptive_avg_pool2d_backward(LARGE[None], (1, *LARGE.shape)) for _ in range(2)]
    await maybe_await(steps.run(*gradients))
    gc.collect()


@pytest.mark.parametrize("error", [*RAISED, None], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("point", ["beside", "message"])
@pytest.mark.parametrize("shared", [shared, shared_program])
async def test_no_region_stays_lent(
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[..., Any],
    echo: str,
    shared: Callable[[Any], Any],
    point: str,
    error: BaseException | None,
) -> None:
    client = connect(echo, shared_memory=True)
    await interrupt(monkeypatch, client, point, error or INTERRUPTS[type(client)], shared, is_late=True)


@pytest.mark.parametrize("error", [*RAISED, None], ids=lambda error: type(error).__name__)
async def test_a_pause_between_attempts(
    monkeypatch: pytest.MonkeyPatch, connect: Callable[..., Any], service: ScriptedService, error: BaseException | None
) -> None:
    busy = failing(aclgrad.ServerBusyError("full", retry_after_s=0.001))

    async def again(client: Any) -> None:
        first = len(service.requests) + 1
        service.answer = lambda context: busy(context) if len(service.requests) == first else REPLY
        await maybe_await(client.execute("pool", INPUTS))

    client = connect(service.address)
    await interrupt(monkeypatch, client, "pause", error or INTERRUPTS[type(client)], again, is_late=False)


@pytest.mark.parametrize("error", [*RAISED, None], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("point", ["discover", "discovered", "found"])
async def test_discovery(
    monkeypatch: pytest.MonkeyPatch,
    connect: Callable[..., Any],
    service: ScriptedService,
    error: BaseException | None,
    point: str,
) -> None:
    """Of the first names, which a call waits for, and of others."""

    async def due(client: Any) -> None:
        if point != "found":
            client._channels._current = None
        client._channels._due_at = 0.0
        await maybe_await(client.execute("pool", INPUTS))

    client = connect(lambda: service.address)
    if point == "found":
        await maybe_await(client.execute("pool", INPUTS))
    step = "discovered" if point == "discovered" else "discover"
    await interrupt(monkeypatch, client, step, error or INTERRUPTS[type(client)], due, is_late=False)


def test_a_channel_that_a_call_left_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch, service: ScriptedService
) -> None:
    """Ctrl-C may have come between the steps of one of its locks, on which every later call would wait."""
    service.answer = lambda context: REPLY
    with aclgrad.Client(service.address) as client:
        client.execute("pool", INPUTS)
        channels, before = client._channels, client._channels.current
        with monkeypatch.context() as patch:
            patch.setattr(
                client._transport, "message", raising(KeyboardInterrupt(), client._transport.message, is_late=False)
            )
            with pytest.raises(KeyboardInterrupt):
                client.execute("pool", INPUTS)
        assert before not in {channels.current, channels.front, *channels._open}
        # Of a discovery that began before.
        channels.use(None, before)  # type: ignore[arg-type]
        assert channels.current is not before
        client.execute("pool", INPUTS)
