"""Both clients with `coalesce=True`: small calls share messages while earlier ones are under way."""

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.calls.coalescing import MAX_CALLS, MAX_IN_FLIGHT, MESSAGE_ID
from aclgrad.errors import to_status
from aclgrad.testing import TestServer
from aclgrad.v1 import operator_service_pb2 as pb
from tools.calling import maybe_await

from .scripted_service import ScriptedService, abort_with, relay_to

Connect = Callable[..., Any]
Answer = Callable[[grpc.ServicerContext], bytes]
SHAPE = (1, 2, 2)
BATCH = "BatchExecuteOperators"


@pytest.fixture
def relay(service: ScriptedService, server: TestServer) -> Iterator[ScriptedService]:
    """A service that answers what the server answers."""
    with grpc.insecure_channel(server.target) as channel:
        service.answer = relay_to(service, channel)
        yield service


def pooling(client: Any, number: float, **options: Any) -> Any:
    """Makes a call whose gradient has the number everywhere."""
    gradient = np.full(SHAPE, number, np.float32)
    return client.adaptive_avg_pool2d_backward(gradient, np.zeros_like(gradient), **options)


def begin(client: Any, calls: Sequence[Callable[[], Any]]) -> list["asyncio.Future[Any]"]:
    if isinstance(client, aclgrad.AsyncClient):
        return [asyncio.ensure_future(call()) for call in calls]
    pool = ThreadPoolExecutor(len(calls))
    return [asyncio.get_running_loop().run_in_executor(pool, call) for call in calls]


async def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        await asyncio.sleep(0.001)


@asynccontextmanager
async def under_way(
    client: Any, service: ScriptedService, call: Callable[[], Any] | None = None
) -> AsyncIterator[None]:
    """Holds as many calls as may be under way, of pooling unless a call is given, until the end of the block."""
    released, answer, before = threading.Event(), service.answer, len(service.requests)

    def held(context: grpc.ServicerContext) -> bytes:
        released.wait(60)
        return answer(context)

    service.answer = held
    first = begin(client, [call or partial(pooling, client, -1)] * MAX_IN_FLIGHT)
    await until(lambda: len(service.requests) == before + MAX_IN_FLIGHT)
    service.answer = answer
    try:
        yield
    finally:
        released.set()
        await asyncio.gather(*first, return_exceptions=True)


async def waiting(client: Any, calls: Sequence[Callable[[], Any]]) -> list["asyncio.Future[Any]"]:
    """Begins the calls and returns when all of them wait."""
    begun = begin(client, calls)
    lanes = client._coalescer._lanes  # noqa: SLF001 - nobody else has to know
    await until(lambda: sum(len(lane._waiting) for lane in lanes.values()) == len(calls))  # noqa: SLF001
    return begun


async def outcomes(begun: Sequence["asyncio.Future[Any]"]) -> list[Any]:
    return await asyncio.gather(*begun, return_exceptions=True)


def sent(service: ScriptedService) -> list[int]:
    """Returns the number of calls in each message, 0 for one that is no batch."""
    return [
        len(pb.BatchExecuteOperatorsRequest.FromString(request).calls) if BATCH in method else 0
        for method, request in service.requests
    ]


def numbers(gradients: Sequence[Any]) -> list[float]:
    return [gradient.max() for gradient in gradients]


async def test_calls_that_wait_go_together(connect: Connect, relay: ScriptedService) -> None:
    client = connect(relay.address, coalesce=True)
    count = MAX_CALLS + 10
    outs = [np.empty(SHAPE, np.float32) for _ in range(count)]
    async with under_way(client, relay):
        calls = [partial(pooling, client, number, out=out) for number, out in enumerate(outs)]
        begun = await waiting(client, calls)
    gradients = await outcomes(begun)
    assert all(gradient is out for gradient, out in zip(gradients, outs, strict=True))
    assert numbers(gradients) == list(range(count))
    assert sorted(sent(relay)) == [0, 0, 10, MAX_CALLS]


async def test_an_idle_client_and_a_large_call_send_no_batch(connect: Connect, relay: ScriptedService) -> None:
    client = connect(relay.address, coalesce=True)
    assert numbers([await maybe_await(pooling(client, number)) for number in range(3)]) == [0, 1, 2]
    relay.requests.clear()
    large = np.ones((1, 200, 200), np.float32)
    inputs = {"grad_output": np.ones((1, 4, 4), np.float32), "self": SHAPE}
    async with under_way(client, relay):
        # Of no other operator, and with no other time limit.
        await maybe_await(client.adaptive_avg_pool2d_backward(large, large.shape))
        await maybe_await(client.execute("replication_pad2d_backward", inputs, {"padding": [1, 1, 1, 1]}))
        await maybe_await(pooling(client, 1, timeout_s=1000))
        await maybe_await(pooling(client, 1, timeout_s=None))
    assert sent(relay) == [0] * (MAX_IN_FLIGHT + 4)


async def test_a_call_that_fails_fails_alone(connect: Connect, relay: ScriptedService) -> None:
    client = connect(relay.address, coalesce=True)
    ones = np.ones((1, 1, 1), np.float32)

    def unpooling(index: int) -> Any:
        return client.max_unpool2d_backward(ones, ones, np.full(ones.shape, index, np.int64), (1, 1))

    async with under_way(client, relay, partial(unpooling, 0)):
        begun = await waiting(client, [partial(unpooling, index) for index in (0, 9, 0)])
        # What is wrong at first sight goes by itself.
        with pytest.raises(aclgrad.InvalidFieldError):
            await maybe_await(client.adaptive_avg_pool2d_backward(np.ones(SHAPE, np.int8), SHAPE))
    good, bad, also_good = await outcomes(begun)
    assert isinstance(bad, aclgrad.InvalidFieldError)
    assert bad.metadata[MESSAGE_ID] != bad.request_id
    assert numbers([good, also_good]) == [1, 1]


async def test_callers_that_leave_take_nobody_along(connect: Connect, relay: ScriptedService) -> None:
    """They are the first that wait, and one from the middle."""
    client = connect(relay.address, coalesce=True, timeout_s=100)
    async with under_way(client, relay):
        # 65 s are as good as 100 s: both lie between two powers of two.
        late = await waiting(client, [partial(pooling, client, number) for number in range(4)])
        if isinstance(client, aclgrad.AsyncClient):
            for index in (0, 2):
                late[index].cancel()
    results = await outcomes(late)
    if isinstance(client, aclgrad.AsyncClient):
        assert [isinstance(each, asyncio.CancelledError) for each in results] == [True, False, True, False]
        results = results[1::2]
        assert numbers(results) == [1, 3]
    else:
        assert numbers(results) == [0, 1, 2, 3]


async def test_a_call_waits_no_longer_than_its_time_limit(connect: Connect, relay: ScriptedService) -> None:
    client = connect(relay.address, coalesce=True, timeout_s=100)
    async with under_way(client, relay):
        # Most of the limit has passed before: two powers of two hold 0.1 s and 100 s apart.
        lanes = client._coalescer._lanes  # noqa: SLF001
        (lane,) = lanes.values()
        client._coalescer.lane = lambda *_: lane  # noqa: SLF001
        late, good = await waiting(client, [partial(pooling, client, 1, timeout_s=0.3), partial(pooling, client, 2)])
        with pytest.raises(aclgrad.DeadlinePassedError, match=r"0\.3 s"):
            await late
    assert numbers([await good]) == [2]


REFUSALS: dict[str, aclgrad.AclgradError] = {
    "busy": aclgrad.ServerBusyError("full", retry_after_s=0.001),
    "values": aclgrad.InputValuesRequiredError("send the array"),
    "limit": aclgrad.LimitExceededError("too large", metadata={"max_message_bytes": "400"}),
    "deadline": aclgrad.DeadlinePassedError("that of another call"),
}


def refusing(error: aclgrad.AclgradError, code: grpc.StatusCode, answer: Answer, service: ScriptedService) -> Answer:
    """Answers the first batch with the error."""
    refuse = abort_with(code, error.message, to_status(error, "5f0c").SerializeToString() if error.reason else None)
    left = [refuse]

    def answer_or_refuse(context: grpc.ServicerContext) -> bytes:
        is_refused = left and BATCH in service.current.method
        return left.pop()(context) if is_refused else answer(context)

    return answer_or_refuse


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_message_that_is_refused_is_retried_by_each_call(
    connect: Connect, relay: ScriptedService, name: str
) -> None:
    error = REFUSALS[name]
    client = connect(relay.address, coalesce=True)
    relay.answer = refusing(error, error.code, relay.answer, relay)
    async with under_way(client, relay):
        begun = await waiting(client, [partial(pooling, client, number) for number in range(5)])
    assert numbers(await outcomes(begun)) == [0, 1, 2, 3, 4]
    assert sent(relay)[:3] == [0, 0, 5]


async def test_a_server_without_batches_gets_none_again(connect: Connect, relay: ScriptedService) -> None:
    client = connect(relay.address, coalesce=True)
    unimplemented = aclgrad.MethodNotServedError("no such method")
    relay.answer = refusing(unimplemented, grpc.StatusCode.UNIMPLEMENTED, relay.answer, relay)
    for batches in (1, 0):
        async with under_way(client, relay):
            calls = [partial(pooling, client, number) for number in range(5)]
            begun = await waiting(client, calls) if batches else begin(client, calls)
        assert numbers(await outcomes(begun)) == [0, 1, 2, 3, 4]
        assert sum(count > 0 for count in sent(relay)) == batches
        relay.requests.clear()


async def test_close_ends_those_that_wait(connect: Connect, relay: ScriptedService) -> None:
    client = connect(relay.address, coalesce=True)
    async with under_way(client, relay):
        begun = await waiting(client, [partial(pooling, client, number) for number in range(20)])
        await maybe_await(client.close())
        assert {type(each) for each in await outcomes(begun)} == {aclgrad.CallCancelledError}


async def test_futures_share_messages_too(relay: ScriptedService) -> None:
    with aclgrad.Client(relay.address, coalesce=True) as client:
        inputs = {"grad_output": np.ones(SHAPE, np.float32), "self": SHAPE}
        async with under_way(client, relay):
            futures = await waiting(
                client, [partial(client.submit, "adaptive_avg_pool2d_backward", inputs) for _ in range(9)]
            )
            futures = [await future for future in futures]
            assert all(future.cancel() for future in futures[::2])
        assert all(future.result(60).max() == 1 for future in futures[1::2])


async def test_calls_that_failed_leave_nothing_to_the_garbage_collector(
    connect: Connect, relay: ScriptedService
) -> None:
    """Their errors' tracebacks have frames that have their arrays: of calls that fail, and of messages."""
    client = connect(relay.address, coalesce=True)
    arrays: list[weakref.ref[np.ndarray]] = []

    def call(shape: tuple[int, ...] = SHAPE) -> Any:
        array = np.ones(shape, np.float32)
        arrays.append(weakref.ref(array))
        inputs = {"grad_output": array, "self": SHAPE}
        if isinstance(client, aclgrad.Client) and len(arrays) % 2:
            client.submit("adaptive_avg_pool2d_backward", inputs).result(60)
        return client.execute("adaptive_avg_pool2d_backward", inputs)

    gc.collect()
    gc.disable()
    try:
        errors = await outcomes(begin(client, [partial(call, (1, 1, 1, 2, 2))] * 20))
        assert {type(error) for error in errors} == {aclgrad.InvalidFieldError}
        async with under_way(client, relay):
            begun = await waiting(client, [call] * 4)
            relay.answer = abort_with(grpc.StatusCode.INTERNAL, "broken")
        errors += await outcomes(begun)
        assert {type(error) for error in errors[20:]} == {aclgrad.AclgradError}
        errors.clear()
        begun.clear()
        await until(lambda: not any(array() is not None for array in arrays))
    finally:
        gc.enable()
