"""Both clients and a server process that was stopped while large messages were on their way to it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import aclgrad

PROMPTLY_S = 60
PATIENT = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.keepalive_time_ms", 600_000),
    ("grpc.keepalive_timeout_ms", 600_000),
]
"""The kernel gives a connection up after ten minutes: a client that waited for that would be far beyond PROMPTLY_S."""
SIZES = {"one_message": 4, "chunks": 64}
"""MiB, more than the buffers of a connection take."""
SERVING = (
    "import aclgrad.testing, sys\nwith aclgrad.testing.serve() as server: print(server.target, flush=True); input()"
)
sizes = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


class Stoppable:
    """A server process, which SIGSTOP stops."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.send = process.send_signal
        self.target = process.stdout.readline().strip()


def arguments(size: int) -> tuple[np.ndarray, tuple[int, int, int]]:
    return np.ones((size, 512, 512), np.float32), (size, 1, 2)


@pytest.fixture(scope="module")
def running() -> Iterator[Stoppable]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", SERVING], stdin=pipe, stdout=pipe, text=True) as process:
        yield Stoppable(process)
        process.kill()


@pytest.fixture
def stopped(running: Stoppable) -> Iterator[Stoppable]:
    """A server that the test stops; afterwards it runs on."""
    yield running
    running.send(signal.SIGCONT)


@sizes
def test_closing_from_another_thread_ends_the_call(stopped: Stoppable, size: int) -> None:
    client = aclgrad.Client(stopped.target, timeout_s=None, channel_options=PATIENT)
    client.list_operators()
    stopped.send(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as thread:
        calling = thread.submit(client.adaptive_avg_pool2d_backward, *arguments(size))
        # Until the buffers are full: what is sent meanwhile does not matter, there is nobody to say so.
        with pytest.raises(TimeoutError):
            calling.result(0.5)
        client.close()
        with pytest.raises(aclgrad.CallCancelledError):
            calling.result(PROMPTLY_S)


PROGRAM = """
import asyncio, inspect, sys
import numpy as np
import aclgrad

async def main(kind, address, size, options):
    client = getattr(aclgrad, kind)(address, channel_options=options)
    operators = client.list_operators()
    if inspect.isawaitable(operators):
        await operators
    print("connected", flush=True)
    sys.stdin.readline()
    try:
        gradient = client.adaptive_avg_pool2d_backward(np.ones((size, 512, 512), "f4"), (size, 1, 2), timeout_s=0.5)
        if inspect.isawaitable(gradient):
            await gradient
    except aclgrad.DeadlinePassedError:
        print("late", flush=True)
    closing = client.close()
    if inspect.isawaitable(closing):
        await closing

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), eval(sys.argv[4])))
"""


@sizes
@pytest.mark.parametrize("kind", ["Client", "AsyncClient"])
def test_a_program_ends_promptly_and_in_silence(stopped: Stoppable, kind: str, size: int) -> None:
    """None of the client's threads keeps the interpreter."""
    command = [sys.executable, "-W", "error", "-c", PROGRAM, kind, stopped.target, str(size), repr(PATIENT)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "connected\n"
            stopped.send(signal.SIGSTOP)
            out, err = process.communicate("\n", timeout=PROMPTLY_S)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (0, "late\n", "")
