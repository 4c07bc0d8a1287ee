"""The processes of clients of a run: started together, and asked to end together."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from tools.chaos.client import Orders
from tools.chaos.hosts import wait_for
from tools.chaos.scene import TOKEN, Scene
from tools.chaos.schedule import HOST_A, HOST_B
from tools.serving import clean_environment

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


class Clients:
    """Runs the processes from `with` to the end of the block, and then until their last calls have ended."""

    def __init__(self, scene: Scene, folder: Path, seed: int, *, with_torch: bool) -> None:
        self._orders = orders(scene, folder, seed, with_torch=with_torch)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.failures: list[str] = []
        """How processes ended that should not have."""

    def __enter__(self) -> Self:
        for each in self._orders:
            self._processes[each.name] = subprocess.Popen(
                [sys.executable, "-m", "tools.chaos.client", each.packed()],
                stdin=subprocess.PIPE,
                env=clean_environment(),
            )
        try:
            for each in self._orders:
                wait_for(partial(self._has_answers, each))
        except BaseException:
            self._kill()
            raise
        return self

    def _has_answers(self, orders: Orders) -> bool:
        """Whether the process has made a call; raises RuntimeError if it has ended."""
        if (code := self._processes[orders.name].poll()) is not None:
            raise RuntimeError(f"the clients {orders.name} ended with {code} at their start")
        path = Path(orders.history)
        return path.exists() and '"end"' in path.read_text()

    def _kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for name, process in self._processes.items():
            try:
                code = process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                code = process.wait()
            if code:
                self.failures.append(f"the clients {name} ended with {code}")
