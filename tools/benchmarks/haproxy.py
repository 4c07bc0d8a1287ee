"""What HAProxy costs: calls/s and latencies through it, beside those of the workers' own addresses.

`python -m tools.benchmarks.haproxy [ROUNDS] [SECONDS]`. Both ways lead to the same two workers and are measured
in turns; the ratios are those to the direct way in the same round. h2load makes the calls, on the same machine: HAProxy
takes its part of the cores from the workers and from h2load.
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
from pathlib import Path
from typing import Final

from aclgrad.wire.service import SERVICE
from tools.benchmarks import loads
from tools.benchmarks.sizes import SIZES
from tools.haproxy import HAProxy
from tools.serving import Server

SIZE_NAMES: Final = ("16 KB", "1 MB")
AT_ONCE: Final = (1, 16)
_CALLS: Final = re.compile(r"(\d+) succeeded")


def measure(
    addresses: Sequence[str], size: str, at_once: int, seconds: float, *metadata: str
) -> tuple[float, float, float]:
    """Returns calls/s, and the median and the 99th percentile of the latency in milliseconds."""
    request = loads.unary_request(SIZES[size])
    with tempfile.TemporaryDirectory() as folder:
        frame = Path(folder) / "frame"
        frame.write_bytes(struct.pack(">BI", 0, len(request)) + request)
        command = ["h2load", "--data", str(frame), "--duration", f"{round(seconds * 1e3)}ms"]
        command += ["--warm-up-time", "300ms", "--clients", "1"]
        command += ["--max-concurrent-streams", str(at_once // len(addresses))]
        command += ["--window-bits", "24", "--connection-window-bits", "24"]
        for header in ("content-type: application/grpc", "te: trailers", *metadata):
            command += ["--header", header]
        logs = [Path(folder) / str(number) for number in range(len(addresses))]
        loading = [
            subprocess.Popen(
                [*command, "--log-file", str(log), f"http://{address}{SERVICE}ExecuteOperator"],
                stdout=subprocess.PIPE,
                text=True,
            )
            for address, log in zip(addresses, logs, strict=True)
        ]
        told = [each.communicate(timeout=15)[0] for each in loading]
        latencies = [float(line.split("\t")[2]) / 1e3 for log in logs for line in log.read_text().splitlines()]
    count = 0
    for text in told:
        found = _CALLS.search(text)
        assert found is not None, text
        assert "0 failed, 0 errored" in text, text
        count += int(found[1])
    cuts = statistics.quantiles(latencies, n=100)
    return count / seconds, cuts[49], cuts[98]


def main() -> None:
    """Prints a line for each size and number of callers."""
    rounds, seconds = int(sys.argv[1]) if sys.argv[1:] else 5, float(sys.argv[2]) if sys.argv[2:] else 2.0
    print("   size callers  " + "".join(f"{name:>12} proxied ratio" for name in ("calls/s", "p50 ms", "p99 ms")))
    with ExitStack() as stack:
        server = stack.enter_context(Server("--workers", "2"))
        proxy = stack.enter_context(HAProxy(server.worker_addresses))
        for size, at_once in product(SIZE_NAMES, AT_ONCE):
            ways = {"direct": server.worker_addresses[: min(at_once, 2)], "proxied": (proxy.address,)}
            measured: dict[str, list[tuple[float, ...]]] = {way: [] for way in ways}
            for number in range(rounds):
                for way in list(ways) if number % 2 == 0 else reversed(ways):
                    measured[way].append(measure(ways[way], size, at_once, seconds))
            cells = []
            for kind in range(3):
                direct, proxied = ([each[kind] for each in measured[way]] for way in ways)
                ratio = statistics.median(its / theirs for its, theirs in zip(proxied, direct, strict=True))
                cells.append(f"{statistics.median(direct):12.2f} {statistics.median(proxied):7.2f} {ratio:5.2f}")
            print(f"{size:>7} {at_once:>7}  ", *cells, flush=True)


if __name__ == "__main__":
    main()
