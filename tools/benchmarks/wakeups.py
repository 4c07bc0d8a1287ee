"""What a call makes the server's threads do: how often they wait and are interrupted, and their system calls.

`python -m tools.benchmarks.wakeups [--against BIN]`, where BIN is the folder `.venv/bin` of another clone. One caller
makes one call after the other. A voluntary switch is a thread that waited, so each stands for a wake-up. System calls
are counted by strace, if it is installed, in calls of their own: it slows the server down.
"""

import argparse
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tools.benchmarks import loads
from tools.benchmarks.observability import OtherServer
from tools.benchmarks.sizes import SIZES
from tools.serving import Server

CASES: Final = (("unary", "16 KB", 2000), ("unary", "1 MB", 500), ("unary", "6.4 MB", 100), ("chunked", "100 MB", 10))
ROUNDS: Final = 3
SHOWN: Final = 6
"""System calls that are named, the most frequent first."""
_SWITCHES: Final = re.compile(r"^(voluntary|nonvoluntary)_ctxt_switches:\s+(\d+)", re.MULTILINE)
_SYSTEM_CALL: Final = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.MULTILINE)


def switches(process_id: int) -> Counter[str]:
    """Returns how often the threads of a process have waited, and were interrupted."""
    total: Counter[str] = Counter()
    for status in Path(f"/proc/{process_id}/task").glob("*/status"):
        for kind, count in _SWITCHES.findall(status.read_text()):
            total[kind] += int(count)
    return total


def switches_per_call(server: Server, load: str, size: str, calls: int) -> Counter[str]:
    call = getattr(loads, load)(server.address, SIZES[size])
    for _ in range(calls // 10 + 1):
        call()
    before = switches(server.process_id)
    for _ in range(calls):
        call()
    return switches(server.process_id) - before


def system_calls(server: Server, load: str, size: str, calls: int) -> Counter[str]:
    call = getattr(loads, load)(server.address, SIZES[size])
    call()
    with tempfile.NamedTemporaryFile("r") as told:
        command = ["strace", "-f", "-c", "-o", told.name, "-p", str(server.process_id)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            tracer.stderr.readline()  # it is attached
            time.sleep(0.2)  # and to the other threads
            for _ in range(calls):
                call()
            tracer.send_signal(signal.SIGINT)
        return Counter({name: int(count) for count, name in _SYSTEM_CALL.findall(told.read()) if name != "total"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path)
    against = parser.parse_args().against
    with ExitStack() as stack:
        servers = {"this": stack.enter_context(Server())}
        if against is not None:
            servers["other"] = stack.enter_context(OtherServer(against))
        for load, size, calls in CASES:
            total: dict[str, Counter[str]] = {name: Counter() for name in servers}
            for _ in range(ROUNDS):
                for name, server in servers.items():
                    total[name] += switches_per_call(server, load, size, calls)
            for name, server in servers.items():
                waits, interruptions = (total[name][kind] / calls / ROUNDS for kind in ("voluntary", "nonvoluntary"))
                print(
                    f"{load} {size}, {name}: {waits:.1f} wake-ups and {interruptions:.1f} interruptions a call", end=""
                )
                if shutil.which("strace") is not None:
                    counts = system_calls(server, load, size, calls // 5 + 1)
                    each = {call: count / (calls // 5 + 1) for call, count in counts.most_common(SHOWN)}
                    told = ", ".join(f"{call} {count:.1f}" for call, count in each.items())
                    print(f"; {counts.total() / (calls // 5 + 1):.1f} system calls: {told}", end="")
                print(flush=True)


if __name__ == "__main__":
    main()
