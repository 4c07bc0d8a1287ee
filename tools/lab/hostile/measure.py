"""One attack on one server, beside the bystander: what came of the bystander's questions, and of the server."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

from tools.authority import Authority
from tools.lab.hostile.attacker import GRACE_S
from tools.lab.hostile.bystander import Samples
from tools.lab.latencies import Latencies
from tools.lab.usage import Peak, Usage
from tools.raw_calls import assert_idle
from tools.serving import Server

FLAGS: Final = ("--memory-limit-bytes", str(640 * 2**20))
"""As little memory as a container has."""
CHANGES: Final = "idle_trim_s=0.3"
"""Memory is given back while the suite watches."""
HELD: Final = re.compile(r"loop held\D*([\d.]+) ms(?:, ([\d.]+) ms of it on the CPU)?")
"""A line of the server's alarm. On a busy machine, only time on the CPU says what the callback itself took."""
MAKE_S: Final = 60
END_S: Final = 120
"""A bystander whose questions are not answered waits for their limit, one after the other."""
LEAD_S: Final = 0.2
"""Of the bystander before the attack, and after it."""
RECOVERY_S: Final = 20.0
"""The kernels of calls that nobody waits for run to their end: ten seconds on a slow machine."""


class Attacked(Server):
    """Listens on TCP for the attackers and on a unix socket for the bystander, so that their addresses differ."""

    def __init__(self, *, has_tls: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        listen = ("127.0.0.1:0", f"unix:{folder / 'socket'}")
        flags = Authority(folder).server_flags() if has_tls else ()
        super().__init__(*FLAGS, *flags, listen=listen, changes=CHANGES)
        self.has_tls = has_tls
        self.rest: Usage | None = None
        """What it used before the first attack; None until it is measured."""

    @property
    def quiet_address(self) -> str:
        return self.addresses[1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the server without any ceremony: how it stops is no part of an attack."""
        with suppress(ProcessLookupError):
            os.kill(self.process_id, signal.SIGKILL)
        self.exit_code()
        super().__exit__(kind, error, traceback)
        self._folder.cleanup()


class Child:
    """A module of this package in a process of its own that takes and gives lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-m", f"tools.lab.hostile.{module}", *arguments]
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
        self._process.communicate()


@dataclass(slots=True)
class Measured:
    """What one attack did."""

    reached: dict[str, int] = field(default_factory=dict)
    samples: Samples = field(default_factory=dict)
    rest: Usage = field(default_factory=Usage)
    peak: Usage = field(default_factory=Usage)
    after: Usage = field(default_factory=Usage)
    load: float = 0.0
    """The machine's, averaged over a minute: what others do to the figures."""
    log: str = ""
    problems: list[str] = field(default_factory=list)
    """Of the server: that it ended, or does not serve as before."""

    @property
    def latencies(self) -> dict[str, Latencies]:
        """Of each kind of question, from when it was due."""
        return {
            name: Latencies.of((seconds for _, seconds, _ in each), (error for *_, error in each))
            for name, each in self.samples.items()
        }

    @property
    def grown(self) -> Usage:
        return self.peak.beyond(self.rest)

    @property
    def kept(self) -> Usage:
        return self.after.beyond(self.rest)

    @property
    def loop_ms(self) -> float:
        return max((float(cpu or wall) for wall, cpu in HELD.findall(self.log)), default=0.0)


def measure(attacker: Child, server: Attacked, bystander: Child, seconds: float, kept: Usage) -> Measured:
    """Lets the attacker loose; returns when all is over and the server had time to recover."""
    found = Measured()
    attacker.read(MAKE_S)
    seen = len(server.log)
    with Peak(server.process_id) as peak:
        # Before the first attack: what earlier ones have left counts as well.
        rest = server.rest = server.rest or peak.now()
        bystander.tell(json.dumps([server.quiet_address, server.admin]))
        time.sleep(LEAD_S)
        attacker.tell(f"{server.address} {seconds}")
        told = attacker.read(seconds + GRACE_S)
        time.sleep(LEAD_S)
        bystander.tell("null")
        found.samples = json.loads(bystander.read(END_S))
        found.reached = json.loads(told) if told else {}
        found.problems += problems_of(server)
        # Memory is not given back while somebody calls.
        peak.wait_until(lambda used: not used.beyond(rest).over(kept), RECOVERY_S)
        found.rest, found.peak, found.after = rest, peak.peak, peak.now()
    found.load, found.log = os.getloadavg()[0], server.log[seen:]
    return found


def problems_of(server: Attacked) -> list[str]:
    """Returns what keeps the server from being as it was: it is idle, and every operator is answered."""
    if not psutil.pid_exists(server.process_id) or psutil.Process(server.process_id).status() == psutil.STATUS_ZOMBIE:
        return [f"the server ended with {server.exit_code()}"]
    try:
        assert_idle(server, server.quiet_address)
    except Exception as error:
        # Whatever it is: the server is not as it was.
        return [f"not as before: {type(error).__name__}: {error}"[:200]]
    return []
