"""A server of several workers, and what becomes of each."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import psutil

import aclgrad
from tests.e2e.admin_pages import ask, starting
from tools.calling import wait_until
from tools.raw_calls import SMALL, execute
from tools.serving import Server, worker_process

GRAD = np.ones((1, 1, 1), np.float32)
CALL = SMALL["adaptive_avg_pool2d_backward"]


class Host(Server):
    """Two workers from `with` to the end of the block."""

    def __init__(self, *flags: str, listen: tuple[str, ...] = ("127.0.0.1:0",), **variables: str) -> None:
        super().__init__("--workers", "2", *flags, listen=listen, **variables)

    def worker(self, index: int) -> psutil.Process:
        """Returns the present process of a worker."""
        return worker_of(self.process_id, index)

    @property
    def workers(self) -> list[str]:
        """What /readyz says of each worker."""
        return ask(self.admin, "/readyz")[1].splitlines()[1:]

    def wait_until_whole(self) -> None:
        wait_until(lambda: self.workers == ["worker 0: ready", "worker 1: ready"])

    def send_to_worker(self, index: int, number: signal.Signals) -> None:
        self.worker(index).send_signal(number)


def worker_of(supervisor: int, index: int) -> psutil.Process:
    found = worker_process(supervisor, index)
    assert found is not None
    return found


def children_of(supervisor: int) -> list[psutil.Process]:
    return psutil.Process(supervisor).children()


def assert_computes(address: str) -> None:
    """By a connection of its own."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        execute(channel, CALL)


def worker_behind(address: str) -> int:
    """Returns the worker that a new connection meets."""
    with aclgrad.Client(address) as client:
        worker = client.server_status().worker
        assert worker is not None
        return worker.index


def wait_for_end(*processes: psutil.Process, timeout_s: float = 60) -> None:
    """Returns when they have ended; they may be zombies of nobody."""
    _, alive = psutil.wait_procs(processes, timeout_s)
    assert not alive


@contextmanager
def calling(call: Callable[[], object], threads: int = 1) -> Iterator[list[BaseException]]:
    """Makes calls from so many threads in the block, and some after it; yields the errors of those that failed."""
    failures: list[BaseException] = []
    done = threading.Event()
    count = 0

    def run() -> None:
        nonlocal count
        while not done.is_set():
            try:
                call()
                count += 1
            except BaseException as error:
                failures.append(error)
            done.wait(0.002)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for each in running:
        each.start()
    try:
        yield failures
        before = count
        wait_until(lambda: count > before + 50 or bool(failures), 30)
    finally:
        done.set()
        for each in running:
            each.join(60)


def starting_host(log: Path, *flags: str, **options: Any) -> AbstractContextManager[tuple[subprocess.Popen[str], str]]:
    """Returns `starting` with two workers."""
    return starting(log, "--workers", "2", *flags, **options)
