"""The two hosts: each is started again when it ends, as systemd would, with the same addresses."""

import re
import subprocess
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import psutil

from tools.calling import wait_until
from tools.serving import STOP_TIMEOUT_S, clean_environment, command, free_range, worker_process

WHOLE_S = 60.0
HANG_TIMEOUT_S = 2.0
CALL_TIMEOUT_S = 3.0
"""A kernel that takes longer is given up, and the device has `HANG_TIMEOUT_S` to show that it lives."""
DRAIN_TIMEOUT_S = 5.0
RESTART_S = 0.1
"""systemd's default between the end of a service and its next start."""
ANSWER_S = 2.0
READY = "ready"
wait_for = partial(wait_until, timeout_s=WHOLE_S, look_s=0.05)
"""Looks often enough for times of seconds, and without taking a processor from others."""


class Host:
    """Runs a server from `with` to the end of the block: a supervisor with workers, or one process for one worker."""

    def __init__(self, name: str, workers: int, log: Path, flags: Sequence[str], **variables: str) -> None:
        self.name, self.workers, self.log = name, workers, log
        self.port = free_range(workers + 1)
        self.admin = f"127.0.0.1:{self.port + workers + 1}"
        listen = "--listen", self.address, "--workers", str(workers)
        limits = {"hang": HANG_TIMEOUT_S, "call": CALL_TIMEOUT_S, "drain": DRAIN_TIMEOUT_S}
        times = [word for name, limit_s in limits.items() for word in (f"--{name}-timeout-s", str(limit_s))]
        self._command = command("--backend", "host", *listen, *times, *flags)
        self._environment = clean_environment(**{"ACLGRAD_ADMIN": self.admin} | variables)
        self._stops = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"keeper of {name}")
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The front door."""
        return f"127.0.0.1:{self.port}"

    @property
    def worker_addresses(self) -> list[str]:
        """The own address of each worker; a host without workers has its front door alone."""
        if self.workers == 1:
            return [self.address]
        return [f"127.0.0.1:{self.port + 1 + number}" for number in range(self.workers)]

    def worker(self, number: int) -> psutil.Process:
        """Returns the process of a worker; raises LookupError or psutil.Error if it has none at the moment."""
        assert self.process is not None
        found = psutil.Process(self.process.pid) if self.workers == 1 else worker_process(self.process.pid, number)
        if found is None:
            raise LookupError(f"worker {number} has no process")
        return found

    def process_id(self, number: int) -> int | None:
        """Returns the id of a worker's process, or None if it has none at the moment."""
        try:
            return self.worker(number).pid
        except (LookupError, psutil.Error):
            return None

    def is_ready(self, number: int) -> bool:
        return f"worker {number}: {READY}" in self._ready_lines()

    def is_whole(self) -> bool:
        lines = self._ready_lines()
        if self.workers == 1:
            return lines[:1] == [READY]
        return all(f"worker {number}: {READY}" in lines for number in range(self.workers))

    def wait_until_whole(self, limit_s: float = WHOLE_S) -> None:
        wait_for(self.is_whole, timeout_s=limit_s)

    def _ready_lines(self) -> list[str]:
        try:
            with urlopen(f"http://{self.admin}/readyz", timeout=ANSWER_S) as answer:
                return str(answer.read().decode()).splitlines()
        except HTTPError as error:
            return str(error.read().decode()).splitlines()
        except (URLError, OSError):
            return []

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL
            )

    def _keep(self) -> None:
        while not self._stops.wait(RESTART_S):
            if self.process is not None and self.process.poll() is not None:
                self._start()

    def __enter__(self) -> Self:
        self._start()
        self._keeper.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stops.set()
        self._keeper.join()
        assert self.process is not None
        self.process.terminate()
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def longest_pause_s(log: str) -> float:
    """Returns for how long a worker rests before it starts again, by the log of its supervisor."""
    return max(map(float, re.findall(r"worker \d+ ended with .*; it starts again in (\d+) s", log)), default=0.0)
