"""The processes of clients of a run, and what each does."""

import sys
from pathlib import Path

from tools.chaos.client import Orders
from tools.chaos.scene import TOKEN, Scene
from tools.chaos.schedule import HOST_A, HOST_B
from tools.client_processes import ClientProcess, ClientProcesses

END_S = 60.0
"""The longest deadline is 30 s."""
PAUSE_S = 0.06
ALL = ("unary", "batch", "chunked", "huge")
SMALL = ("unary", "batch", "chunked")


def orders(scene: Scene, folder: Path, seed: int, *, with_torch: bool) -> list[Orders]:
    """Returns what each process does: threads at a front door, tasks with both hosts, and so on."""
    both = ",".join((*scene.a.worker_addresses, scene.b.address))
    relays = ",".join(relay.address for relay in scene.relays.values())
    rows = [
        ("front", "threads", scene.a.address, HOST_A, ALL),
        ("list", "tasks", both, (*HOST_A, HOST_B), SMALL),
        ("relays", "threads", relays, tuple(scene.relays), SMALL),
        ("memory", "threads", scene.socket, HOST_A[:1], ("unary", "huge")),
    ]
    if with_torch:
        rows.append(("torch", "torch", both, (*HOST_A, HOST_B), ("unary",)))
    found = []
    for number, (name, style, target, servers, methods) in enumerate(rows):
        is_local = target == scene.socket
        shown = {"ca": "", "token": ""} if is_local else {"ca": scene.authority.ca, "token": TOKEN}
        path = str(folder / f"client-{name}.jsonl")
        made = Orders(
            name, style, target, servers, methods, seed + number, PAUSE_S, path, shared_memory=is_local, **shown
        )
        found.append(made)
    return found


def clients(scene: Scene, folder: Path, seed: int, *, with_torch: bool) -> ClientProcesses:
    """Returns the processes of a run, not started."""
    ordered = orders(scene, folder, seed, with_torch=with_torch)
    command = (sys.executable, "-m", "tools.chaos.client")
    return ClientProcesses(
        [ClientProcess(each.name, (*command, each.packed()), Path(each.history)) for each in ordered], END_S
    )
