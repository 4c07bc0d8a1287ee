"""What each kind of fault does. It returns when full service is back."""

import signal
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

import psutil

import aclgrad
from tools.lab.chaos.scene import GUEST, Scene
from tools.lab.chaos.schedule import Planned
from tools.lab.host import WHOLE_S, wait_for

Detected = Callable[[], None]
"""To be called when the product, or whoever starts it, has noticed the fault."""
Fault = Callable[[Scene, Planned, Detected], None]

STOPPED_FOR_S: Final = 30.0
"""The supervisor needs 12 s to kill a worker that is stopped."""
GUEST_DEADLINE_S: Final = 5.0
HOUR_S: Final = 3600
SLOW_BYTES_PER_S: Final = 40_000.0


def _has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_until_new(scene: Scene, worker: int, old_id: int) -> None:
    """Waits until another process of the worker is there and the host is whole."""
    wait_for(lambda: scene.a.process_id(worker) not in (None, old_id) and scene.a.is_whole())


def _end(number: signal.Signals, limit_s: float, scene: Scene, planned: Planned, detected: Detected) -> None:
    """Kills a worker, or stops it until its supervisor kills it."""
    process = scene.a.worker(planned.worker)
    process.send_signal(number)
    wait_for(lambda: _has_ended(process), timeout_s=limit_s)
    detected()
    _wait_until_new(scene, planned.worker, process.pid)


def _pause(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Stops a worker, and lets it go on before anybody kills it."""
    process = scene.a.worker(planned.worker)
    process.send_signal(signal.SIGSTOP)
    time.sleep(planned.seconds)
    process.send_signal(signal.SIGCONT)
    wait_for(scene.a.is_whole)


def _renew(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Restarts the workers of A one by one; nobody has to detect that."""
    old = [scene.a.worker(number).pid for number in range(scene.a.workers)]
    scene.a.send(signal.SIGHUP)
    for number, old_id in enumerate(old):
        _wait_until_new(scene, number, old_id)


def _kill_supervisor(scene: Scene, planned: Planned, detected: Detected) -> None:
    old = [scene.a.worker(number) for number in range(scene.a.workers)]
    scene.a.send(signal.SIGKILL)
    # Whoever starts it sees that at once, and its workers let their calls end first.
    wait_for(lambda: all(map(_has_ended, old)))
    detected()
    for number, process in enumerate(old):
        _wait_until_new(scene, number, process.pid)


def _kill_host(scene: Scene, planned: Planned, detected: Detected) -> None:
    old = scene.b.process
    scene.b.send(signal.SIGKILL)
    wait_for(lambda: scene.b.process is not old)
    detected()
    wait_for(scene.b.is_whole)


def _fail(row: Mapping[str, Any], is_end: bool, scene: Scene, planned: Planned, detected: Detected) -> None:
    """Ends a worker, whose next process has a plan of faults that calls of the clients reach."""
    # The first allocations of a process are the ones that a pool makes; later it has what it needs.
    fault = {"at": 1 if row["kind"] == "out_of_memory" else planned.launch, **row}
    old = scene.a.worker(planned.worker)
    scene.a.write_config(faults=[fault])
    try:
        old.send_signal(signal.SIGTERM)
        wait_for(lambda: _has_ended(old))
        wait_for(lambda: scene.a.process_id(planned.worker) not in (None, old.pid))
        process = scene.a.worker(planned.worker)
        # Either it is ready, or its first calls have ended it.
        wait_for(lambda: scene.a.is_ready(planned.worker) or _has_ended(process))
    finally:
        scene.a.write_config()
    if not is_end:
        time.sleep(planned.seconds)
        wait_for(scene.a.is_whole)
        return
    wait_for(lambda: _has_ended(process))
    detected()
    _wait_until_new(scene, planned.worker, process.pid)


def _change_certificate(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Replaces the pair that both hosts have; new connections get the new one."""
    old = _certificates(scene)
    scene.authority.pair("server")
    wait_for(lambda: all(new != before for new, before in zip(_certificates(scene), old, strict=True)))


def _certificates(scene: Scene) -> list[str]:
    found = []
    for address in (*scene.a.worker_addresses, scene.b.address):
        host, _, port = address.rpartition(":")
        found.append(ssl.get_server_certificate((host, int(port)), timeout=GUEST_DEADLINE_S))
    return found


def _change_identities(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Takes a guest out, who is then refused, and lets it in again; the other clients go on all the time."""
    credentials = aclgrad.Credentials(**scene.credentials(GUEST))
    with aclgrad.Client(scene.a.address, credentials=credentials, timeout_s=GUEST_DEADLINE_S) as guest:
        for is_in in (True, False, True):
            scene.write_identities(guest=is_in)
            wait_for(lambda is_in=is_in: _is_let_in(guest) == is_in)


def _is_let_in(guest: aclgrad.Client) -> bool:
    try:
        guest.list_operators()
    except aclgrad.NotAuthenticatedError:
        return False
    return True


def _fill_log_disk(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Fills the disk that both logs are on."""
    filler = scene.log_folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(65_536)):
                pass
        time.sleep(planned.seconds)
    finally:
        filler.unlink()
    wait_for(lambda: scene.a.is_whole() and scene.b.is_whole())


def _move_clock(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Moves the clock of B by an hour, forward or back, and after a while to where it was."""
    scene.clock.write_text(f"{'+' if planned.number % 2 else '-'}{HOUR_S}\n")
    time.sleep(planned.seconds)
    scene.clock.write_text("+0\n")
    wait_for(scene.b.is_whole)


def _partition(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Drops every packet from and to B, in the network namespace that is this run's own."""
    rules = [
        ["INPUT", "--protocol", "tcp", side, str(scene.b.port), "--jump", "DROP"] for side in ("--dport", "--sport")
    ]
    for rule in rules:
        subprocess.run(["iptables", "--wait", "--insert", *rule], check=True)
    try:
        time.sleep(planned.seconds)
    finally:
        for rule in rules:
            subprocess.run(["iptables", "--wait", "--delete", *rule], check=True)


def _relay(scene: Scene, planned: Planned, detected: Detected) -> None:
    """Has a way be silent, slow, or half open: then new connections work, and clients have to give up the old ones."""
    relay = scene.relays[planned.relay]
    match planned.kind.name:
        case "relay_silent":
            relay.be_silent()
        case "relay_throttled":
            relay.be_slow(SLOW_BYTES_PER_S)
        case _:
            relay.forget()
    time.sleep(planned.seconds)
    relay.pass_again()


FAULTS: Final[Mapping[str, Fault]] = {
    "kill": partial(_end, signal.SIGKILL, WHOLE_S),
    "stop": partial(_end, signal.SIGSTOP, STOPPED_FOR_S),
    "pause": _pause,
    "renew": _renew,
    "supervisor_killed": _kill_supervisor,
    "host_killed": _kill_host,
    "device_lost": partial(_fail, {"kind": "launch_error"}, True),
    "copy_error": partial(_fail, {"kind": "copy_error"}, True),
    "hang_kernel": partial(_fail, {"kind": "hang"}, True),
    "hang_copy": partial(_fail, {"kind": "hang_copy"}, True),
    "out_of_memory": partial(_fail, {"kind": "out_of_memory", "count": 3}, False),
    "slow_device": partial(_fail, {"kind": "slow_copy", "count": 60, "duration_ms": 100}, False),
    "certificate": _change_certificate,
    "identities": _change_identities,
    "full_log_disk": _fill_log_disk,
    "clock_jump": _move_clock,
    "partition": _partition,
    **dict.fromkeys(("relay_silent", "relay_throttled", "relay_half_open"), _relay),
}
