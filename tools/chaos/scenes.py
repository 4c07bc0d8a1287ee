"""What happens to one of several workers, and when the host is whole again."""

import json
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import numpy as np
import psutil

import aclgrad
from tools.calling import wait_until
from tools.serving import Server

WORKERS = 3
WHOLE_S = 60.0
HANG_TIMEOUT_S = 2.0
FAULT_AT = 20_000
"""The launch of a worker at which its device fails: the load alone does not come so far."""
BURST = 512


@dataclass(frozen=True, slots=True)
class Scene:
    """One thing that happens to worker 1."""

    name: str
    happen: Callable[[Server, Sequence[str]], None]
    faults: tuple[dict[str, object], ...] = ()
    detection_s: float = 1.0
    """For how long the host may not know. Clients find other workers meanwhile."""
    is_repeated: bool = False

    def flags(self, folder: Path) -> list[str]:
        """Returns the flags of the host."""
        host = {"devices": WORKERS, "threads": 1, "faults": list(self.faults), "faults_after_launches": FAULT_AT}
        config = folder / "acl.json"
        config.write_text(json.dumps({"host": host}))
        return ["--acl-config", str(config), "--hang-timeout-s", str(HANG_TIMEOUT_S), "--call-timeout-s", "3"]


def worker_process(server: Server, index: int) -> psutil.Process:
    """Returns the process of a worker."""
    for child in psutil.Process(server.process_id).children():
        if child.cmdline()[-2:] == ["worker", str(index)]:
            return child
    raise LookupError(f"worker {index} has no process")


def states(server: Server) -> list[str]:
    """Returns the lines of /readyz about the workers."""
    try:
        with urlopen(f"http://{server.admin}/readyz", timeout=5) as answer:
            return answer.read().decode().splitlines()[1:]
    except URLError:
        return []


def wait_until_whole(server: Server) -> None:
    """Waits until every worker is ready."""
    wait_until(lambda: [line.partition(": ")[2] for line in states(server)] == ["ready"] * WORKERS, WHOLE_S)


def _kill(server: Server, addresses: Sequence[str]) -> None:
    worker_process(server, 1).send_signal(signal.SIGKILL)


def _stop(server: Server, addresses: Sequence[str]) -> None:
    worker_process(server, 1).send_signal(signal.SIGSTOP)


def _fail(server: Server, addresses: Sequence[str]) -> None:
    """Calls worker 1 at its own address until its device fails."""
    process, small = worker_process(server, 1), (1, 1, 2, 2)
    question = np.ones((1, 1, 1, 1), np.float32)
    with aclgrad.Client(addresses[1], retries=0, timeout_s=10.0) as client:
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            batch = client.batch()
            for _ in range(BURST):
                batch.adaptive_avg_pool2d_backward(question, small)
            try:
                batch.run(return_errors=True)
            except aclgrad.AclgradError:
                return


def _renew(server: Server, addresses: Sequence[str]) -> None:
    server.send(signal.SIGHUP)


def _crash(server: Server, addresses: Sequence[str]) -> None:
    """Kills the worker whenever it has a process."""
    with suppress(LookupError, psutil.Error):
        worker_process(server, 1).send_signal(signal.SIGKILL)
    time.sleep(0.2)


LOST = ({"kind": "launch_error", "at": 1},)
HANG = ({"kind": "hang", "at": 1, "duration_ms": 3_600_000},)
SCENES = {
    scene.name: scene
    for scene in (
        Scene("kill", _kill),
        Scene("device_lost", _fail, LOST),
        Scene("hang", _fail, HANG, detection_s=HANG_TIMEOUT_S + 5.0),
        Scene("stop", _stop, detection_s=14.0),
        Scene("renew", _renew, detection_s=5.0),
        Scene("crash_loop", _crash, is_repeated=True),
    )
}
