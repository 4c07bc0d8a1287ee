"""Where faults happen: two hosts with TLS and identities, relays before them, and what this machine has for faults."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools.authority import Authority, write_identities
from tools.chaos.hosts import Host
from tools.chaos.relay import Relay
from tools.chaos.schedule import RELAYS, WORKERS
from tools.serving import write_host_config

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
TOKEN, GUEST = "token-of-the-clients", "token-of-a-guest"
DEVICE_BYTES = 2**30
LOG_DISK_MB = 16


@dataclass(frozen=True, slots=True)
class Scene:
    """Both hosts, A with three workers and B with one process, and all that faults need."""

    folder: Path
    a: Host
    b: Host
    relays: dict[str, Relay]
    authority: Authority
    socket: str
    """The target of worker 0 of A for shared memory."""

    @property
    def log_folder(self) -> Path:
        return self.a.log.parent

    @property
    def clock(self) -> Path:
        """What libfaketime adds to the clock of B."""
        return self.folder / "clock"

    def write_config(self, **host: object) -> None:
        """Writes how the devices of A are made, for the workers that start from now on."""
        write_host_config(self.folder, devices=WORKERS, threads=1, memory_bytes=DEVICE_BYTES, **host)

    def write_identities(self, *, guest: bool) -> str:
        """Writes who may call; the guest comes and goes."""
        entries: dict[str, dict[str, object]] = {"clients": {"token": TOKEN, "max_calls": 2000}}
        entries["local"] = {"unix_socket": True, "max_calls": 2000}
        if guest:
            entries["guest"] = {"token": GUEST}
        return write_identities(self.folder / "identities.toml", entries)


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
        b_folder = folder / "b"
        b_folder.mkdir()
        socket = f"unix:{folder / 'a.sock'}"
        flags = (*authority.server_flags(), "--identities", str(folder / "identities.toml"), "--log-format", "text")
        config = "--acl-config", str(folder / "acl.json")
        a = Host("A", WORKERS, logs / "a.log", (*flags, *config, "--listen", socket, "--shared-memory"))
        variables = {}
        if "libfaketime" in has:
            (folder / "clock").write_text("+0\n")
            variables = {
                "LD_PRELOAD": str(FAKETIME),
                "FAKETIME_TIMESTAMP_FILE": str(folder / "clock"),
                "FAKETIME_NO_CACHE": "1",
                "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            }
        b_config = write_host_config(b_folder, threads=1, memory_bytes=DEVICE_BYTES)
        b = Host("B", 1, logs / "b.log", (*flags, "--acl-config", b_config), **variables)
        ports = {**{f"A/{at}": address for at, address in enumerate(a.worker_addresses)}, "B/0": b.address}
        relays = {name: Relay(int(ports[server].rpartition(":")[2])) for name, server in RELAYS.items()}
        made = Scene(folder, a, b, relays, authority, socket)
        made.write_config()
        made.write_identities(guest=True)
        for each in (a, b, *relays.values()):
            stack.enter_context(each)
        a.wait_until_whole()
        b.wait_until_whole()
        yield made
