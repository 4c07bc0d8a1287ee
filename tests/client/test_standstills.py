"""Both clients: calls end when their client is closed or their time is over, wherever they stand."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await

from .conftest import begin, each_end, end_as
from .scripted_limits import LimitedServer, limited_server
from .scripted_streams import GRAD, HEADER, OPERATOR, SHAPE, ScriptedStreams

MOMENTS_S = [0.004 * count for count in range(6)]


@pytest.fixture
def limited() -> Iterator[LimitedServer]:
    with limited_server(2**24) as server:
        yield server


@pytest.mark.parametrize("elements", [1, 3_000_000])
async def test_calls_end_as_cancelled_whenever_their_client_is_closed(
    connect: Callable[..., Any], limited: LimitedServer, elements: int
) -> None:
    """By another thread, or by another task."""
    array = np.ones((1, 1, elements), np.float32)

    def call_on(client: aclgrad.Client) -> None:
        while True:
            client.execute("pool", {"a": array})

    async def call_on_in_task(client: aclgrad.AsyncClient) -> None:
        while True:
            await client.execute("pool", {"a": array})

    for moment_s in MOMENTS_S:
        client = connect(limited.address, retries=0)
        blocks = isinstance(client, aclgrad.Client)
        calls = [asyncio.to_thread(call_on, client) if blocks else call_on_in_task(client) for _ in range(2)]
        tasks = [asyncio.create_task(each) for each in calls]
        await asyncio.sleep(moment_s)
        await maybe_await(client.close())
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
@each_end
async def test_a_call_that_is_cancelled_or_whose_client_is_closed(
    connect: Connect, streams: ScriptedStreams, chunks: int | None, begins: bool, end: str
) -> None:
    streams.script = still = Standstill(streams, chunks, begins)
    client = connect(streams.address, timeout_s=None)
    task = begin(client, OPERATOR, {"grad_output": GRAD, "self": SHAPE})
    await asyncio.to_thread(still.stands.wait, PROMPTLY_S)
    await end_as(end, client, task)
    async with asyncio.timeout(PROMPTLY_S):
        while not still.ended.is_set() or len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("chunks", [2, None], ids=["middle", "all"])
async def test_a_server_that_stops_amid_a_call(connect: Connect, streams: ScriptedStreams, chunks: int | None) -> None:
    streams.script = still = Standstill(streams, chunks)
    stopper = threading.Thread(target=lambda: still.stands.wait(60) and streams.server and streams.server.stop(0))
    stopper.start()
    client = connect(streams.address, retries=1, connect_timeout_s=0.5)
    with pytest.raises(aclgrad.ConnectionLostError):
        await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE))
    stopper.join(60)
