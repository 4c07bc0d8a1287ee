"""Both clients: calls end when their client is closed or their time is over, wherever they stand."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await, wait_until

from .scripted_limits import LimitedServer, limited_server
from .scripted_streams import GRAD, HEADER, SHAPE, ScriptedStreams

MOMENTS_S = [0.004 * count for count in range(6)]
ELEMENTS = [1, 3_000_000]


@pytest.fixture
def limited() -> Iterator[LimitedServer]:
    with limited_server(2**24) as server:
        yield server


@pytest.mark.parametrize("elements", ELEMENTS)
def test_calls_end_as_cancelled_whenever_another_thread_closes(limited: LimitedServer, elements: int) -> None:
    array = np.ones((1, 1, elements), np.float32)
    ends: list[BaseException] = []

    def call_on(client: aclgrad.Client) -> None:
        try:
            while True:
                client.execute("pool", {"a": array})
        except aclgrad.AclgradError as error:
            ends.append(error)

    for moment_s in MOMENTS_S:
        client = aclgrad.Client(limited.address, retries=0)
        callers = [threading.Thread(target=call_on, args=(client,)) for _ in range(2)]
        for caller in callers:
            caller.start()
        time.sleep(moment_s)
        client.close()
        for caller in callers:
            caller.join()
    assert {type(each) for each in ends} == {aclgrad.CallCancelledError}
    assert len(ends) == 2 * len(MOMENTS_S)


@pytest.mark.parametrize("elements", ELEMENTS)
async def test_calls_end_as_cancelled_whenever_another_task_closes(limited: LimitedServer, elements: int) -> None:
    array = np.ones((1, 1, elements), np.float32)

    async def call_on(client: aclgrad.AsyncClient) -> None:
        while True:
            await client.execute("pool", {"a": array})

    for moment_s in MOMENTS_S:
        client = aclgrad.AsyncClient(limited.address, retries=0)
        tasks = [asyncio.create_task(call_on(client)) for _ in range(2)]
        await asyncio.sleep(moment_s)
        await client.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ends] == [aclgrad.CallCancelledError] * 2


Connect = Callable[..., Any]
PROMPTLY_S = 60
"""Less than the time limit of a call."""


class Standstill:
    """Takes so many chunks and then does nothing until the call has ended; `begins` answers before."""

    def __init__(self, streams: ScriptedStreams, chunks: int | None, begins: bool = False) -> None:
        self._streams, self._chunks, self._begins = streams, chunks, begins
        self.stands, self.ended = threading.Event(), threading.Event()

    def __call__(self, messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.add_callback(self.ended.set)
        self._streams.receive(messages, context, self._chunks)
        if self._begins:
            yield HEADER
        self.stands.set()
        self.ended.wait(60)


STANDSTILLS = {"header": (0, False), "middle": (2, False), "all": (None, False), "answer": (None, True)}


@pytest.mark.parametrize(("chunks", "begins"), STANDSTILLS.values(), ids=STANDSTILLS)
async def test_the_deadline_ends_a_call_wherever_it_stands(
    connect: Connect, streams: ScriptedStreams, chunks: int | None, begins: bool
) -> None:
    streams.script = still = Standstill(streams, chunks, begins)
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=0.5))
    assert still.ended.wait(PROMPTLY_S)


@pytest.mark.parametrize(("chunks", "begins"), STANDSTILLS.values(), ids=STANDSTILLS)
@pytest.mark.parametrize("end", ["cancel", "close"])
async def test_a_task_that_is_cancelled_or_whose_client_is_closed(
    streams: ScriptedStreams, chunks: int | None, begins: bool, end: str
) -> None:
    streams.script = still = Standstill(streams, chunks, begins)
    async with aclgrad.AsyncClient(streams.address, timeout_s=None) as client:
        task = asyncio.create_task(client.execute("adaptive_avg_pool2d_backward", {"grad_output": GRAD, "self": SHAPE}))
        while not still.stands.is_set():
            await asyncio.sleep(0.001)
        if end == "cancel":
            task.cancel()
        else:
            await client.close()
        with pytest.raises(asyncio.CancelledError if end == "cancel" else aclgrad.CallCancelledError):
            await asyncio.wait_for(task, PROMPTLY_S)
        async with asyncio.timeout(PROMPTLY_S):
            while not still.ended.is_set() or len(asyncio.all_tasks()) > 1:
                await asyncio.sleep(0.001)


@pytest.mark.parametrize(("chunks", "begins"), STANDSTILLS.values(), ids=STANDSTILLS)
def test_a_client_that_is_closed_by_another_thread(streams: ScriptedStreams, chunks: int | None, begins: bool) -> None:
    streams.script = still = Standstill(streams, chunks, begins)
    client = aclgrad.Client(streams.address, timeout_s=None)
    ends: list[BaseException] = []

    def call() -> None:
        try:
            client.adaptive_avg_pool2d_backward(GRAD, SHAPE)
        except aclgrad.AclgradError as error:
            ends.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    wait_until(still.stands.is_set)
    client.close()
    caller.join(PROMPTLY_S)
    assert [type(each) for each in ends] == [aclgrad.CallCancelledError]
    assert still.ended.wait(PROMPTLY_S)


@pytest.mark.parametrize("chunks", [2, None], ids=["middle", "all"])
async def test_a_server_that_stops_amid_a_call(connect: Connect, streams: ScriptedStreams, chunks: int | None) -> None:
    streams.script = still = Standstill(streams, chunks)
    stopper = threading.Thread(target=lambda: still.stands.wait(60) and streams.server and streams.server.stop(0))
    stopper.start()
    client = connect(streams.address, retries=1, connect_timeout_s=0.5)
    with pytest.raises(aclgrad.ConnectionLostError):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
    stopper.join(60)
