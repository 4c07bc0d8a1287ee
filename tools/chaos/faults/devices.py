"""Devices that fail: a worker is ended, its next process has a plan of faults, and calls of the clients reach it."""

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tools.chaos.faults.processes import has_ended, wait_until_new
from tools.chaos.hosts import wait_for
from tools.chaos.scene import Scene
from tools.chaos.schedule import Planned


@dataclass(frozen=True, slots=True)
class Plan:
    """A row of the device's plan, without when it comes; whether the worker ends by it."""

    kind: str
    count: int = 1
    options: tuple[tuple[str, Any], ...] = ()
    ends: bool = True


PLANS = {
    "device_lost": Plan("launch_error"),
    "copy_error": Plan("copy_error"),
    "hang_kernel": Plan("hang"),
    "hang_copy": Plan("hang_copy"),
    "out_of_memory": Plan("out_of_memory", count=3, ends=False),
    "slow_device": Plan("slow_copy", count=60, options=(("duration_ms", 100),), ends=False),
}


def fail(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    plan = PLANS[planned.kind.name]
    # The first allocations of a process are the ones that a pool makes; later it has what it needs.
    at = 1 if plan.kind == "out_of_memory" else planned.launch
    fault = {"kind": plan.kind, "at": at, "count": plan.count, **dict(plan.options)}
    old = scene.a.worker(planned.worker)
    scene.write_config(faults=[fault])
    try:
        old.send_signal(signal.SIGTERM)
        wait_for(lambda: has_ended(old))
        wait_for(lambda: scene.a.process_id(planned.worker) not in (None, old.pid))
        process = scene.a.worker(planned.worker)
        # Either it is ready, or its first calls have ended it.
        wait_for(lambda: scene.a.is_ready(planned.worker) or has_ended(process))
    finally:
        scene.write_config()
    if not plan.ends:
        time.sleep(planned.seconds)
        wait_for(scene.a.is_whole)
        return
    wait_for(lambda: has_ended(process))
    detected()
    wait_until_new(scene, planned.worker, process.pid)
