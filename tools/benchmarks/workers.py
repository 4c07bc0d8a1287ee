"""What a second worker brings and costs: calls/s and time on the CPU with one process and with two workers.

`python -m tools.benchmarks.workers [ROUNDS] [SECONDS]`. The servers are measured in turns, and the ratios are those to
the single process of the same round. Callers are spread evenly over the workers' own addresses, as a client that
balances spreads its calls; a lone caller has the address that the workers share. h2load makes the calls, on the same
machine.
"""

import re
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import product
from typing import Final

import psutil

from aclgrad.wire.service import SERVICE
from tools.benchmarks import loads
from tools.benchmarks.sizes import SIZES
from tools.serving import Server

WORKERS: Final = 2
SIZE_NAMES: Final = ("16 KB", "1 MB")
AT_ONCE: Final = (1, 4, 16)
_CALLS: Final = re.compile(r"(\d+) succeeded")


def calls(server: Server, addresses: Sequence[str], size: str, at_once: int, seconds: float) -> tuple[float, float]:
    """Returns calls/s, and microseconds on the CPU for each of all of the server's processes."""
    request = loads.unary_request(SIZES[size])
    connections = min(at_once, 4)
    with tempfile.NamedTemporaryFile() as frame:
        frame.write(struct.pack(">BI", 0, len(request)) + request)
        frame.flush()
        command = ["h2load", "--data", frame.name, "--duration", f"{round(seconds * 1e3)}ms", "--warm-up-time", "300ms"]
        command += ["--clients", str(connections // len(addresses))]
        command += ["--max-concurrent-streams", str(at_once // connections)]
        command += ["--window-bits", "24", "--connection-window-bits", "24"]
        command += ["--header", "content-type: application/grpc", "--header", "te: trailers"]
        before = _cpu_s(server)
        loading = [
            subprocess.Popen([*command, f"http://{address}{SERVICE}ExecuteOperator"], stdout=subprocess.PIPE, text=True)
            for address in addresses
        ]
        told = [each.communicate(timeout=60)[0] for each in loading]
        taken_s = _cpu_s(server) - before
    count = 0
    for text in told:
        found = _CALLS.search(text)
        assert found is not None, text
        assert "0 failed, 0 errored" in text, text
        count += int(found[1])
    return count / seconds, 1e6 * taken_s / count


def _cpu_s(server: Server) -> float:
    process = psutil.Process(server.process_id)
    times = [each.cpu_times() for each in (process, *process.children())]
    return sum(each.user + each.system for each in times)


def main() -> None:
    """Prints a line for each size and number of callers."""
    rounds, seconds = int(sys.argv[1]) if sys.argv[1:] else 5, float(sys.argv[2]) if sys.argv[2:] else 2.0
    print("   size callers  one calls/s  two calls/s  two over one  CPU us, one  CPU us, two  two over one")
    with ExitStack() as stack:
        one = stack.enter_context(Server("--workers", "1"))
        two = stack.enter_context(Server("--workers", str(WORKERS)))
        for size, at_once in product(SIZE_NAMES, AT_ONCE):
            addresses = {one: (one.address,), two: two.worker_addresses if at_once > 1 else (two.address,)}
            measured: dict[Server, list[tuple[float, float]]] = {one: [], two: []}
            for number in range(rounds):
                for server in (one, two) if number % 2 == 0 else (two, one):
                    measured[server].append(calls(server, addresses[server], size, at_once, seconds))
            cells = []
            for kind in (0, 1):
                single, double = ([each[kind] for each in measured[server]] for server in (one, two))
                ratio = statistics.median(theirs / its for theirs, its in zip(double, single, strict=True))
                cells += [f"{statistics.median(single):12.0f}", f"{statistics.median(double):12.0f}", f"{ratio:13.2f}"]
            print(f"{size:>7} {at_once:>7}", *cells, flush=True)


if __name__ == "__main__":
    main()
