"""Both clients: calls end when their client is closed or their time is over, wherever they stand, and not before."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await

from .conftest import Connect, begin, each_end, end_as
from .scripted_streams import GRAD, OPERATOR, RESULTS, SHAPE, LimitedServer, ScriptedStreams, limited_server

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
            yield RESULTS
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


SERVING = (
    "import aclgrad.testing, sys\nwith aclgrad.testing.serve() as server: print(server.target, flush=True); input()"
)
PROGRAM = """
import asyncio, sys, threading
import numpy as np
import aclgrad

# The kernel gives a connection up after ten minutes, and gRPC does not before.
PATIENT = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 600_000),
    ("grpc.keepalive_timeout_ms", 600_000),
]
SIZES = (4, 24)  # MiB, more than the buffers of a connection take: one message, and chunks

ends = []

def given(size):
    return np.ones((size, 512, 512), "f4"), (size, 1, 2)

def call(client, size, kind, **options):
    try:
        client.adaptive_avg_pool2d_backward(*given(size), **options)
    except kind:
        ends.append(kind.__name__)

async def call_in_task(client, size):
    try:
        await client.adaptive_avg_pool2d_backward(*given(size), timeout_s=0.5)
    except aclgrad.DeadlinePassedError:
        ends.append("DeadlinePassedError")

async def main(target):
    late, closed = ([aclgrad.Client(target, channel_options=PATIENT) for _ in SIZES] for _ in range(2))
    in_tasks = [aclgrad.AsyncClient(target, channel_options=PATIENT) for _ in SIZES]
    for each in late + closed:
        each.list_operators()
    for each in in_tasks:
        await each.list_operators()
    print("connected", flush=True)
    sys.stdin.readline()
    threads = []
    for clients, kind, timeout_s in (
        (late, aclgrad.DeadlinePassedError, 0.5), (closed, aclgrad.CallCancelledError, None)
    ):
        for client, size in zip(clients, SIZES):
            threads.append(threading.Thread(target=call, args=(client, size, kind), kwargs={"timeout_s": timeout_s}))
            threads[-1].start()
    await asyncio.gather(*(call_in_task(client, size) for client, size in zip(in_tasks, SIZES)))
    for each in threads[:2]:
        each.join()
    for each in closed + late:
        each.close()
    for each in threads:
        each.join()
    for each in in_tasks:
        await each.close()
    print(*sorted(ends))

asyncio.run(main(sys.argv[1]))
"""


def start(program: str, *arguments: str) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_a_program_whose_server_process_is_stopped_ends_promptly_and_in_silence() -> None:
    """By deadlines and by closing, while large messages are on their way; no thread keeps the interpreter."""
    with start(SERVING) as server:
        assert server.stdout is not None
        with start(PROGRAM, server.stdout.readline().strip()) as program:
            try:
                assert program.stdout is not None
                assert program.stdout.readline() == "connected\n"
                server.send_signal(signal.SIGSTOP)
                out, err = program.communicate("\n", timeout=PROMPTLY_S)
            finally:
                program.kill()
                server.kill()
    ends = ["CallCancelledError"] * 2 + ["DeadlinePassedError"] * 4
    assert (program.returncode, out.split(), err) == (0, ends, "")
