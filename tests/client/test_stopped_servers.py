"""Both clients and a server process that was stopped while large messages were on their way to it."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await
from tools.serving import Server

PROMPTLY_S = 5
"""Far less than the 10 s after which the kernel gives up a connection."""
SIZES = {"one_message": 4, "chunks": 64}
"""MiB, more than the buffers of a connection take."""


def arguments(size: int) -> tuple[np.ndarray, tuple[int, int, int]]:
    return np.ones((size, 512, 512), np.float32), (size, 1, 2)


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server() as server:
        yield server


@pytest.fixture
def stopped(running: Server) -> Iterator[Server]:
    """A server that the test stops by SIGSTOP; afterwards it runs on."""
    yield running
    running.send(signal.SIGCONT)


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
async def test_deadline_and_close_are_prompt(connect: Callable[..., Any], stopped: Server, size: int) -> None:
    client = connect(stopped.address, channel_options=[("grpc.use_local_subchannel_pool", 1)])
    await maybe_await(client.list_operators())
    stopped.send(signal.SIGSTOP)
    start = time.monotonic()
    with pytest.raises(aclgrad.DeadlinePassedError):
        await maybe_await(client.adaptive_avg_pool2d_backward(*arguments(size), timeout_s=1))
    await maybe_await(client.close())
    assert time.monotonic() - start < PROMPTLY_S


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_closing_from_another_thread_ends_the_call(stopped: Server, size: int) -> None:
    client = aclgrad.Client(stopped.address, timeout_s=None, channel_options=[("grpc.use_local_subchannel_pool", 1)])
    client.list_operators()
    stopped.send(signal.SIGSTOP)
    ends: list[BaseException] = []

    def call() -> None:
        try:
            client.adaptive_avg_pool2d_backward(*arguments(size))
        except aclgrad.AclgradError as error:
            ends.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    # Until the buffers are full: what is sent meanwhile does not matter, there is nobody to say so.
    caller.join(1)
    start = time.monotonic()
    client.close()
    caller.join(60)
    assert time.monotonic() - start < PROMPTLY_S
    assert [type(each) for each in ends] == [aclgrad.CallCancelledError]


PROGRAM = """
import asyncio, inspect, sys
import numpy as np
import aclgrad

async def main(kind, address, size):
    client = getattr(aclgrad, kind)(address)
    operators = client.list_operators()
    if inspect.isawaitable(operators):
        await operators
    print("connected", flush=True)
    sys.stdin.readline()
    try:
        gradient = client.adaptive_avg_pool2d_backward(np.ones((size, 512, 512), np.float32), (size, 1, 2), timeout_s=1)
        if inspect.isawaitable(gradient):
            await gradient
    except aclgrad.DeadlinePassedError:
        print("late", flush=True)
    closing = client.close()
    if inspect.isawaitable(closing):
        await closing

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_a_program_ends_promptly_and_in_silence(stopped: Server, kind: str, size: int) -> None:
    """None of the client's threads keeps the interpreter."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, kind, stopped.address, str(size)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            stopped.send(signal.SIGSTOP)
            start = time.monotonic()
            out, err = process.communicate("\n", timeout=60)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "late\n", "")
    assert time.monotonic() - start < PROMPTLY_S


MOMENTS_S = [0.002 * count for count in range(12)]
ELEMENTS = [1, 300_000, 3_000_000]


@pytest.mark.parametrize("elements", ELEMENTS)
def test_calls_end_as_cancelled_whenever_another_thread_closes(running: Server, elements: int) -> None:
    array = np.ones((1, 1, elements), np.float32)
    ends: list[BaseException] = []

    def call_on(client: aclgrad.Client) -> None:
        try:
            while True:
                client.adaptive_avg_pool2d_backward(array, array.shape)
        except aclgrad.AclgradError as error:
            ends.append(error)

    for moment_s in MOMENTS_S:
        client = aclgrad.Client(running.address, retries=0)
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
async def test_calls_end_as_cancelled_whenever_another_task_closes(running: Server, elements: int) -> None:
    array = np.ones((1, 1, elements), np.float32)

    async def call_on(client: aclgrad.AsyncClient) -> None:
        while True:
            await client.adaptive_avg_pool2d_backward(array, array.shape)

    for moment_s in MOMENTS_S:
        client = aclgrad.AsyncClient(running.address, retries=0)
        tasks = [asyncio.create_task(call_on(client)) for _ in range(2)]
        await asyncio.sleep(moment_s)
        await client.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(each) for each in ends] == [aclgrad.CallCancelledError] * 2
