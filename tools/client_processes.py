"""Processes of clients: started together, and asked to end together."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.calling import wait_until
from tools.released import ROOT
from tools.serving import clean_environment


@dataclass(frozen=True, slots=True)
class ClientProcess:
    """A command that makes calls until its standard input ends, and writes what became of them to its history."""

    name: str
    command: Sequence[str]
    history: Path


class ClientProcesses:
    """Runs the processes, from the first right answer of each to the end of the block and of the last calls."""

    def __init__(self, clients: Sequence[ClientProcess], end_s: float) -> None:
        self._clients, self._end_s = clients, end_s
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.failures: list[str] = []
        """How processes ended that should not have."""

    def __enter__(self) -> Self:
        for each in self._clients:
            self._processes[each.name] = subprocess.Popen(
                each.command, cwd=ROOT, stdin=subprocess.PIPE, env=clean_environment()
            )
        try:
            for each in self._clients:
                wait_until(partial(self._has_answers, each), look_s=0.1)
        except BaseException:
            for process in self._processes.values():
                process.kill()
                process.wait()
            raise
        return self

    def _has_answers(self, client: ClientProcess) -> bool:
        """Raises RuntimeError if the process has ended."""
        if (code := self._processes[client.name].poll()) is not None:
            raise RuntimeError(f"the clients {client.name} ended with {code} at their start")
        return client.history.exists() and '"right"' in client.history.read_text()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for name, process in self._processes.items():
            try:
                code = process.wait(self._end_s)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code:
                self.failures.append(f"the clients {name} ended with {code}")
