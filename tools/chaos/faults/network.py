"""A network that drops, is slow, or has forgotten connections."""

import subprocess
import time
from collections.abc import Callable

from tools.chaos.scene import Scene
from tools.chaos.schedule import Planned

SLOW_BYTES_PER_S = 40_000.0


def partition(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Drops every packet from and to B, in the network namespace that is this run's own."""
    port = scene.b.address.rpartition(":")[2]
    rules = [["INPUT", "--protocol", "tcp", side, port, "--jump", "DROP"] for side in ("--dport", "--sport")]
    for rule in rules:
        subprocess.run(["iptables", "--wait", "--insert", *rule], check=True)
    try:
        time.sleep(planned.seconds)
    finally:
        for rule in rules:
            subprocess.run(["iptables", "--wait", "--delete", *rule], check=True)


def silence(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    scene.relays[planned.relay].be_silent()
    time.sleep(planned.seconds)
    scene.relays[planned.relay].pass_again()


def throttle(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    scene.relays[planned.relay].be_slow(SLOW_BYTES_PER_S)
    time.sleep(planned.seconds)
    scene.relays[planned.relay].pass_again()


def forget(scene: Scene, planned: Planned, detected: Callable[[], None]) -> None:
    """Leaves connections half open. New ones work; the old ones are of no use until their client has given them up."""
    scene.relays[planned.relay].forget()
    time.sleep(planned.seconds)
