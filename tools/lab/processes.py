"""Processes of clients: started together, called on for rounds, and asked to end together."""

import math
import os
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.calling import wait_until
from tools.lab.caller import Orders
from tools.lab.history import Event, read
from tools.serving import clean_environment

ROOT: Final = Path(__file__).parents[2]
END_S: Final = 60.0
"""Beyond the longest deadline."""
LOOK_S: Final = 0.02
TAIL_BYTES: Final = 2**12


class ClientProcesses:
    """Runs the processes from `with` to the end of the block and of their last calls."""

    def __init__(self, ordered: Sequence[Orders]) -> None:
        self._ordered = ordered
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.failures: list[str] = []
        """How processes ended that should not have."""

    @property
    def process_ids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    def begin(self, seconds: float = math.inf) -> None:
        """Has all of them call for so long, by default until the end of the block."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write(f"{seconds}\n".encode())
            process.stdin.flush()

    def wait_for_answers(self) -> None:
        """Waits for the first right answer of each."""
        self._wait_for('"outcome": "right"')

    def end_round(self) -> list[Event]:
        """Waits until all calls of the round have ended; returns what the histories have of it, and empties them."""
        self._wait_for('"kind": "quiet"')
        paths = [Path(each.history) for each in self._ordered]
        events = read(paths)
        for path in paths:
            os.truncate(path, 0)
        return events

    def _wait_for(self, text: str) -> None:
        """Raises ChildProcessError if a process has ended meanwhile."""
        for each in self._ordered:
            wait_until(partial(self._has_told, each, text), END_S + max(each.deadlines_s), LOOK_S)

    def _has_told(self, orders: Orders, text: str) -> bool:
        if (code := self._processes[orders.name].poll()) is not None:
            raise ChildProcessError(f"the clients {orders.name} ended with {code}")
        history = Path(orders.history)
        return history.exists() and text.encode() in history.read_bytes()[-TAIL_BYTES:]

    def __enter__(self) -> Self:
        for each in self._ordered:
            self._processes[each.name] = subprocess.Popen(
                each.command, cwd=ROOT, stdin=subprocess.PIPE, env=clean_environment()
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for name, process in self._processes.items():
            try:
                code = process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code:
                self.failures.append(f"the clients {name} ended with {code}")
