"""Files, disks and clocks that change under the servers."""

import ssl
import time
from collections.abc import Callable

import aclgrad
from tools.chaos.hosts import wait_for
from tools.chaos.scene import GUEST, Scene
from tools.chaos.schedule import Planned

GUEST_DEADLINE_S = 5.0
HOUR_S = 3600


def change_certificate(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
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


def change_identities(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Takes a guest out, who is then refused, and lets it in again; the other clients go on all the time."""
    with aclgrad.Client(
        scene.a.address,
        credentials=aclgrad.Credentials(ca=scene.authority.ca, token=GUEST, server_name="localhost"),
        timeout_s=GUEST_DEADLINE_S,
    ) as guest:
        wait_for(lambda: _is_let_in(guest))
        scene.write_identities(guest=False)
        wait_for(lambda: not _is_let_in(guest))
        scene.write_identities(guest=True)
        wait_for(lambda: _is_let_in(guest))


def _is_let_in(guest: aclgrad.Client) -> bool:
    try:
        guest.list_operators()
    except aclgrad.NotAuthenticatedError:
        return False
    return True


def fill_log_disk(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Fills the disk that both logs are on."""
    filler = scene.log_folder / "filler"
    try:
        with filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(65_536)):
                    pass
            except OSError:
                pass
        time.sleep(planned.seconds)
    finally:
        filler.unlink()
    wait_for(lambda: scene.a.is_whole() and scene.b.is_whole())


def move_clock(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Moves the clock of B by an hour, forward or back, and after a while to where it was."""
    scene.clock.write_text(f"{'+' if planned.number % 2 else '-'}{HOUR_S}\n")
    time.sleep(planned.seconds)
    scene.clock.write_text("+0\n")
    wait_for(scene.b.is_whole)
