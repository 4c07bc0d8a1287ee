"""One attack on one server, beside the bystander: what came of the bystander's questions, and of the server."""

import json
import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import psutil

import aclgrad
from tests.e2e.raw_calls import assert_idle
from tests.hostile.attack import GRACE_S
from tests.hostile.processes import Bystander, Child, Samples
from tests.hostile.servers import Attacked

LEAD_S: Final = 0.2
"""Of the bystander before the attack, and after it."""
SAMPLE_S: Final = 0.02
RECOVERY_S: Final = 10.0
STATUS_TIMEOUT_S: Final = 5.0
MEBIBYTE: Final = 2**20
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Measured:
    """What one attack did."""

    reached: dict[str, int] = field(default_factory=dict)
    samples: Samples = field(default_factory=dict)
    rest_mb: float = 0.0
    peak_mb: float = 0.0
    after_mb: float = 0.0
    load: float = 0.0
    """The machine's, averaged over a minute: what others do to the figures."""
    log: str = ""
    problems: list[str] = field(default_factory=list)
    """Of the server: that it ended, or does not serve as before."""


class Memory:
    """Samples the resident memory of a process until the block ends."""

    def __init__(self, process_id: int) -> None:
        self._statm = Path(f"/proc/{process_id}/statm")
        self.peak_mb = self.now_mb()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def now_mb(self) -> float:
        try:
            return int(self._statm.read_text().split()[1]) * PAGE_BYTES / MEBIBYTE
        except (OSError, IndexError):
            return 0.0  # the process has ended

    def _sample(self) -> None:
        while not self._over.wait(SAMPLE_S):
            self.peak_mb = max(self.peak_mb, self.now_mb())

    def wait_until_below(self, limit_mb: float, timeout_s: float) -> None:
        end = time.monotonic() + timeout_s
        while self.now_mb() > limit_mb and time.monotonic() < end:
            time.sleep(SAMPLE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def measure(attacker: Child, server: Attacked, bystander: Bystander, seconds: float, kept_mb: float) -> Measured:
    """Lets the attacker loose; returns when all is over and the server had time to recover."""
    found = Measured()
    attacker.read(timeout_s=60)
    seen = len(server.log)
    with Memory(server.process_id) as memory:
        # Before the first attack: what earlier ones have left counts as well.
        rest_mb = server.rest_mb = server.rest_mb or memory.now_mb()
        bystander.begin(server)
        time.sleep(LEAD_S)
        attacker.tell(f"{server.address} {seconds}")
        told = attacker.read(seconds + GRACE_S)
        time.sleep(LEAD_S)
        found.samples = bystander.end()
        found.reached = json.loads(told) if told else {}
        found.problems += problems_of(server)
        # Nothing is given back while somebody calls.
        memory.wait_until_below(rest_mb + kept_mb, RECOVERY_S)
        found.rest_mb, found.peak_mb, found.after_mb = rest_mb, memory.peak_mb, memory.now_mb()
    found.load, found.log = os.getloadavg()[0], server.log[seen:]
    return found


def has_ended(server: Attacked) -> bool:
    try:
        return psutil.Process(server.process_id).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def problems_of(server: Attacked) -> list[str]:
    """Returns what keeps the server from being as it was: it is idle, and every operator is answered."""
    if has_ended(server):
        return [f"the server ended with {server.exit_code()}"]
    end, problem = time.monotonic() + RECOVERY_S, ""
    with aclgrad.Client(server.quiet_address, retries=0) as client:
        while True:
            try:
                queue = client.server_status(timeout_s=STATUS_TIMEOUT_S).queue
                problem = f"{queue.running_count} calls run and {queue.waiting_count} wait"
                if queue.running_count == queue.waiting_count == queue.running_bytes == 0:
                    break
            except aclgrad.AclgradError as error:
                problem = str(error)
            if time.monotonic() > end:
                return [f"not idle {RECOVERY_S:.0f} s later: {problem}"]
            time.sleep(SAMPLE_S)
    try:
        assert_idle(server, server.quiet_address)
    except Exception as error:
        # Whatever it is: the server is not as it was.
        return [f"not as before: {type(error).__name__}: {error}"[:200]]
    return []
