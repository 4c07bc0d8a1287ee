"""One attack on one server, beside the bystander: what came of the bystander's questions, and of the server."""

import json
import os
import time
from dataclasses import dataclass, field
from typing import Final

import psutil

import aclgrad
from tools.calling import calls_in
from tools.hostile.attack import GRACE_S
from tools.hostile.processes import Bystander, Child, Samples
from tools.hostile.servers import Attacked
from tools.hostile.usage import SAMPLE_S, Sampler, Usage
from tools.raw_calls import assert_idle

LEAD_S: Final = 0.2
"""Of the bystander before the attack, and after it."""
RECOVERY_S: Final = 20.0
"""The kernels of calls that nobody waits for run to their end: ten seconds on a slow machine."""
STATUS_TIMEOUT_S: Final = 5.0


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


def measure(attacker: Child, server: Attacked, bystander: Bystander, seconds: float, kept: Usage) -> Measured:
    """Lets the attacker loose; returns when all is over and the server had time to recover."""
    found = Measured()
    attacker.read(timeout_s=60)
    seen = len(server.log)
    with Sampler(server.process_id) as sampler:
        # Before the first attack: what earlier ones have left counts as well.
        rest = server.rest = server.rest or sampler.now()
        bystander.begin(server)
        time.sleep(LEAD_S)
        attacker.tell(f"{server.address} {seconds}")
        told = attacker.read(seconds + GRACE_S)
        time.sleep(LEAD_S)
        found.samples = bystander.end()
        found.reached = json.loads(told) if told else {}
        found.problems += problems_of(server)
        # Memory is not given back while somebody calls.
        sampler.wait_until(lambda used: not used.beyond(rest).over(kept), RECOVERY_S)
        found.rest, found.peak, found.after = rest, sampler.peak, sampler.now()
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
                problem = f"{queue.running_count} large and {queue.small_running_count} small calls run"
                if calls_in(queue) == queue.running_bytes == 0:
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
