"""Both clients against a scripted service: chunked calls that stand still, and how they end."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

import aclgrad
from tools.calling import maybe_await, wait_until

from .scripted_streams import GRAD, HEADER, SHAPE, ScriptedStreams

Connect = Callable[..., Any]
PROMPTLY_S = 20
"""Far less than the time limit of a call."""


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
    start = time.monotonic()
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=0.5))
    assert time.monotonic() - start < PROMPTLY_S
    assert still.ended.wait(PROMPTLY_S)


@pytest.mark.parametrize("timeout_s", [-1.0, 0.0, 1e-9])
async def test_a_deadline_that_has_passed(connect: Connect, streams: ScriptedStreams, timeout_s: float) -> None:
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(connect(streams.address).adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=timeout_s))


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
