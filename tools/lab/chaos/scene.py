"""Where faults happen: two hosts with TLS and identities, relays before them, and what this machine has for faults."""

import importlib.util
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from aclgrad.operators.catalogue import OPERATORS
from tools.authority import Authority, write_identities
from tools.lab.caller import Orders
from tools.lab.chaos.schedule import HOST_A, HOST_B, RELAYS, WORKERS
from tools.lab.gradients import write_questions
from tools.lab.host import Host
from tools.lab.relay import Relay

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
TOKEN, GUEST = "token-of-the-clients", "token-of-a-guest"
LOG_DISK_MB = 16
# A kernel that takes longer than a call may is given up, and the device has the other time to show that it lives.
LIMITS = ("--call-timeout-s", "3", "--hang-timeout-s", "2", "--drain-timeout-s", "5")
DEVICE = {"threads": 1, "memory_bytes": 2**30, "host_pointers": False}
"""As a card, which copies: without host pointers."""

DEADLINES_S, TORCH_DEADLINE_S = (2.0, 10.0, 30.0), 30.0
SHARES = {"unary": 52, "batch": 15, "program": 6, "program in chunks": 4, "chunked": 22}
HUGE = {"huge": 1}


@dataclass(frozen=True, slots=True)
class Scene:
    """Both hosts, A with three workers and B with one process, and all that faults need."""

    folder: Path
    a: Host
    b: Host
    relays: dict[str, Relay]
    authority: Authority

    @property
    def log_folder(self) -> Path:
        return self.a.log.parent

    @property
    def socket(self) -> str:
        """The target of worker 0 of A for shared memory."""
        return f"unix:{self.folder / 'a.sock'}"

    @property
    def clock(self) -> Path:
        """What libfaketime adds to the clock of B."""
        return self.folder / "clock"

    def write_identities(self, *, guest: bool) -> None:
        """Writes who may call; the guest comes and goes."""
        entries: dict[str, dict[str, object]] = {"clients": {"token": TOKEN, "max_calls": 2000}}
        entries["local"] = {"unix_socket": True, "max_calls": 2000}
        if guest:
            entries["guest"] = {"token": GUEST}
        write_identities(self.folder / "identities.toml", entries)

    def orders(self, folder: Path, seed: int) -> list[Orders]:
        """Returns what each process of clients does: threads at a front door, tasks with both hosts, and so on."""
        both, servers = ",".join((*self.a.worker_addresses, self.b.address)), (*HOST_A, HOST_B)
        relays = ",".join(relay.address for relay in self.relays.values())
        rows = [
            ("front", "threads", self.a.address, HOST_A, SHARES | HUGE, DEADLINES_S),
            ("list", "tasks", both, servers, SHARES, DEADLINES_S),
            ("relays", "threads", relays, tuple(self.relays), SHARES, DEADLINES_S),
            ("memory", "threads", self.socket, HOST_A[:1], {"unary": 62, "program": 6} | HUGE, DEADLINES_S),
        ]
        if importlib.util.find_spec("torch"):
            rows.append(("torch", "threads", both, servers, {"torch": 1}, (TORCH_DEADLINE_S,)))
        kinds = sorted({kind for row in rows for kind in row[4]})
        questions = write_questions(folder / "questions", kinds, {*OPERATORS}, seed)
        found = []
        for number, (name, style, target, of, shares, deadlines_s) in enumerate(rows):
            is_local = target == self.socket
            found.append(
                Orders(
                    name,
                    style,
                    target,
                    of,
                    shares,
                    questions,
                    str(folder / f"client-{name}.jsonl"),
                    deadlines_s,
                    seed=seed + number,
                    credentials={} if is_local else self.credentials(TOKEN),
                    client={"shared_memory": is_local},
                )
            )
        return found

    def credentials(self, token: str) -> dict[str, str]:
        return {"ca": self.authority.ca, "token": token, "server_name": "localhost"}


def machine_has(is_isolated: bool) -> set[str]:
    """Returns what kinds of faults may need and can have here."""
    found = {"mount"} if is_isolated else set()
    if is_isolated and shutil.which("iptables"):
        found.add("iptables")
    if FAKETIME.exists():
        found.add("libfaketime")
    return found


@contextmanager
def scene(folder: Path, has: set[str]) -> Iterator[Scene]:
    """Runs both hosts and the relays until the end of the block."""
    logs = folder / "logs"
    logs.mkdir()
    with ExitStack() as stack:
        if "mount" in has:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={LOG_DISK_MB}m", "chaos", logs], check=True)
            stack.callback(subprocess.run, ["umount", "--lazy", logs], check=True)
        authority = Authority(folder)
        identities = "--identities", str(folder / "identities.toml"), "--log-format", "text"
        flags = *authority.server_flags(), *identities, *LIMITS
        socket = "--listen", f"unix:{folder / 'a.sock'}", "--shared-memory"
        a = Host("a", logs, *flags, *socket, workers=WORKERS, device=DEVICE)
        clock = {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        b = Host("b", logs, *flags, device=DEVICE, **clock if "libfaketime" in has else {})
        ports = {**{f"A/{at}": address for at, address in enumerate(a.worker_addresses)}, HOST_B: b.address}
        relays = {name: Relay(int(ports[server].rpartition(":")[2])) for name, server in RELAYS.items()}
        made = Scene(folder, a, b, relays, authority)
        made.clock.write_text("+0\n")
        made.write_identities(guest=True)
        for each in (a, b, *relays.values()):
            stack.enter_context(each)
        a.wait_until_whole()
        b.wait_until_whole()
        yield made
