"""The processes beside the server: the attackers, and the honest client."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from tools.hostile.catalogue import Attack
from tools.hostile.servers import Attacked

Samples = dict[str, list[tuple[float, float, str]]]
"""Of each kind of question: when it was due, seconds until its end, and what went wrong."""
END_S: Final = 120
"""A bystander whose questions are not answered waits for their limit, one after the other."""


class Child:
    """A module of this package in a process of its own that takes and gives lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"tools.hostile.{module}", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def read(self, timeout_s: float) -> str:
        """Returns the next line, or nothing if the process ends; it is ended when the time is over."""
        assert self._process.stdout is not None
        timer = threading.Timer(timeout_s, self._process.kill)
        timer.start()
        try:
            return self._process.stdout.readline()
        finally:
            timer.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Bystander(Child):
    """The honest client; serves one server after the other."""

    def __init__(self) -> None:
        super().__init__("bystander")

    def begin(self, server: Attacked) -> None:
        order = {"order": "begin", "address": server.quiet_address, "admin": server.admin_address}
        self.tell(json.dumps(order))

    def end(self) -> Samples:
        self.tell(json.dumps({"order": "end"}))
        samples: Samples = json.loads(self.read(timeout_s=END_S))
        return samples


def attackers(attacks: Sequence[Attack], ahead: int) -> Iterator[tuple[Attack, Child]]:
    """Yields each attack with its process, which is started so many attacks before its turn."""
    with ExitStack() as stack:
        started: list[Child] = []
        for number, attack in enumerate(attacks):
            for each in attacks[len(started) : number + 1 + ahead]:
                started.append(stack.enter_context(Child("attack", each.name)))
            yield attack, started[number]
