"""A host: a server that is started again when it ends, as systemd would; or a pod, which is not."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import psutil

from tools.calling import wait_until
from tools.serving import STOP_TIMEOUT_S, clean_environment, command, free_range, worker_process, write_host_config

WHOLE_S = 60.0
RESTART_S = 0.1
"""systemd's default between the end of a service and its next start."""
ANSWER_S = 2.0
wait_for = partial(wait_until, timeout_s=WHOLE_S, look_s=0.05)
"""Looks often enough for times of seconds, and without taking a processor from others."""


class Host:
    """Runs a server from `with` to the end of the block: a supervisor with workers, or one process for one worker."""

    def __init__(
        self,
        name: str,
        folder: Path,
        *flags: str,
        workers: int = 1,
        device: Mapping[str, Any] | None = None,
        address: str = "",
        backend: str = "host",
        python: str = sys.executable,
        restarts: bool = True,
        **variables: str,
    ) -> None:
        """Has an address of its own, with ports for each worker and the admin listener behind it, unless given one."""
        self.name, self.workers, self.log = name, workers, folder / f"{name}.log"
        host, _, port = (address or f"127.0.0.1:{free_range(workers + 1)}").rpartition(":")
        self._folder, self._host, self.port = folder / name, host, int(port)
        self._folder.mkdir()
        self.admin = f"{host}:{self.port + workers + 1}"
        own = ["--listen", self.address, "--admin", self.admin, "--acl-config", str(self._folder / "acl.json")]
        own += ["--workers", str(workers)] if workers > 1 else []
        self._command = [python, *command("--backend", backend, *own, *flags)[1:]]
        self._environment = clean_environment(**variables)
        self._device = {"devices": workers, **(device or {})}
        self._restarts = restarts
        self._stops = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"keeper of {name}")
        self.process: subprocess.Popen[bytes] | None = None
        self.write_config()

    def write_config(self, **host: Any) -> None:
        """Writes how the devices are made, for the workers that start from now on."""
        write_host_config(self._folder, **self._device | host)

    @property
    def address(self) -> str:
        """The front door."""
        return f"{self._host}:{self.port}"

    @property
    def worker_addresses(self) -> list[str]:
        """The own address of each worker; a host without workers has its front door alone."""
        if self.workers == 1:
            return [self.address]
        return [f"{self._host}:{self.port + 1 + number}" for number in range(self.workers)]

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

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def is_ready(self, number: int) -> bool:
        return f"worker {number}: ready" in self._readiness()[1]

    def is_whole(self) -> bool:
        status, lines = self._readiness()
        if self.workers == 1:
            return status == HTTPStatus.OK
        return all(f"worker {number}: ready" in lines for number in range(self.workers))

    def wait_until_whole(self) -> None:
        wait_for(self.is_whole)

    def _readiness(self) -> tuple[int, list[str]]:
        try:
            with urlopen(f"http://{self.admin}/readyz", timeout=ANSWER_S) as answer:
                return answer.status, answer.read().decode().splitlines()
        except HTTPError as error:
            return error.code, error.read().decode().splitlines()
        except (URLError, OSError):
            return 0, []

    def _start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, env=self._environment, stdout=subprocess.DEVNULL, stderr=log, stdin=subprocess.DEVNULL
            )

    def _keep(self) -> None:
        while not self._stops.wait(RESTART_S):
            if self._restarts and self.process is not None and self.process.poll() is not None:
                self._start()

    def __enter__(self) -> Self:
        self._start()
        self._keeper.start()
        return self

    def stop(self) -> int:
        """Ends the process as a service manager does; returns its exit code."""
        self._stops.set()
        self._keeper.join()
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()


def longest_pause_s(log: str) -> float:
    """Returns for how long a worker rests before it starts again, by the log of its supervisor."""
    return max(map(float, re.findall(r"worker \d+ ended with .*; it starts again in (\d+) s", log)), default=0.0)
