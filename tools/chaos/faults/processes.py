"""Processes that are killed, stopped and renewed."""

import signal
import time
from collections.abc import Callable

import psutil

from tools.chaos.hosts import WHOLE_S, wait_for
from tools.chaos.scene import Scene
from tools.chaos.schedule import Planned

STOPPED_FOR_S = 30.0
"""The supervisor needs 12 s to kill a worker that is stopped."""


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def kill(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    _end(scene, planned, detected, signal.SIGKILL, WHOLE_S)


def stop(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Stops a worker until its supervisor kills it."""
    _end(scene, planned, detected, signal.SIGSTOP, STOPPED_FOR_S)


def _end(scene: Scene, planned: Planned, detected: Callable[[], None], number: signal.Signals, limit_s: float) -> None:
    process = scene.a.worker(planned.worker)
    process.send_signal(number)
    wait_for(lambda: has_ended(process), timeout_s=limit_s)
    detected()
    wait_until_new(scene, planned.worker, process.pid)


def wait_until_new(scene: Scene, worker: int, old_id: int) -> None:
    """Waits until another process of the worker is there and the host is whole."""
    wait_for(lambda: scene.a.process_id(worker) not in (None, old_id) and scene.a.is_whole())


def pause(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Stops a worker, and lets it go on before anybody kills it."""
    process = scene.a.worker(planned.worker)
    process.send_signal(signal.SIGSTOP)
    time.sleep(planned.seconds)
    process.send_signal(signal.SIGCONT)
    wait_for(scene.a.is_whole)


def renew(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Restarts the workers of A one by one; nobody has to detect that."""
    old = [scene.a.worker(number).pid for number in range(scene.a.workers)]
    assert scene.a.process is not None
    scene.a.process.send_signal(signal.SIGHUP)
    for number, old_id in enumerate(old):
        wait_until_new(scene, number, old_id)


def kill_supervisor(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    old = [scene.a.worker(number) for number in range(scene.a.workers)]
    supervisor = scene.a.process
    assert supervisor is not None
    supervisor.kill()
    # Whoever starts it sees that at once, and its workers let their calls end first.
    wait_for(lambda: all(map(has_ended, old)))
    detected()
    for number, process in enumerate(old):
        wait_until_new(scene, number, process.pid)


def kill_host(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    old = scene.b.process
    assert old is not None
    old.kill()
    wait_for(lambda: scene.b.process is not old)
    detected()
    wait_for(scene.b.is_whole)
