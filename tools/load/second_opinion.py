"""`make load-second-opinion`: nghttp2's h2load in place of Locust, on the server and on the echo.

h2load knows HTTP/2 and not gRPC: it sends the frame of one request again and again, and counts a reply as a success by
its HTTP status, which is 200 for every gRPC error too. It shows no trailers, where gRPC's status is. Errors carry no
data, however: how many gradients came back is told by the bytes of data that it received.
"""

import re
import shutil
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from statistics import median
from typing import Final

import psutil

from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings, loads
from tools.benchmarks.measure import Served, running
from tools.benchmarks.sizes import SIZES, Size
from tools.benchmarks.wire import SERVER, SERVER_FLAGS

PREFIX: Final = struct.Struct(">BI")
"""Before each message on the wire: whether it is compressed, and its length."""
ROUNDS: Final = 3
LIMIT_S: Final = 120
_WINDOW_BITS: Final = "24"


@dataclass(frozen=True, slots=True)
class Load:
    """So many calls in all, over so many connections with so many calls at once on each."""

    size: str
    calls: int
    connections: int
    streams: int


LOADS: Final = (
    Load("16 KB", 3000, 4, 2),
    Load("1 MB", 600, 4, 2),
    Load("6.4 MB", 120, 4, 1),
    # Far more than the server runs at once: this row is about its memory.
    Load("6.4 MB", 320, 8, 40),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What h2load told, and what the server took."""

    calls_per_s: float
    succeeded: int
    gradients: int
    cpu_ms: float
    peak_mb: float


def main() -> int:
    if shutil.which("h2load") is None:
        sys.exit("h2load is missing; install it with `make h2load` (Debian's nghttp2-client)")
    whole = True
    print("| size | at once | calls/s | echo | ratio | CPU ms | echo | peak MB | echo | gradients of calls |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for load in LOADS:
        size = SIZES[load.size]
        ours, echo = [], []
        for _ in range(ROUNDS if load.streams < 40 else 1):
            with running("tools.benchmarks.ceilings") as served:
                echo.append(_measure(served, ceilings.UNARY, loads.echo_request(size), size.tensor_bytes, load))
            with running(SERVER, *SERVER_FLAGS) as served:
                method = SERVICE + "ExecuteOperator"
                ours.append(_measure(served, method, loads.unary_request(size), _reply_bytes(served, size), load))
        gradients = sum(each.gradients for each in ours)
        expected = load.calls * len(ours)
        # What is beyond the server's bound is refused, and a success to h2load all the same.
        whole = (
            whole
            and all(each.succeeded == load.calls for each in ours)
            and (gradients == expected or load.streams >= 40)
        )
        ratio = median(a.calls_per_s / b.calls_per_s for a, b in zip(ours, echo, strict=True))
        cells = (
            *(load.size, str(load.connections * load.streams)),
            *(f"{median(each.calls_per_s for each in side):.0f}" for side in (ours, echo)),
            f"{ratio:.2f}",
            *(f"{median(each.cpu_ms for each in side):.2f}" for side in (ours, echo)),
            *(f"{max(each.peak_mb for each in side):.0f}" for side in (ours, echo)),
            f"{gradients} of {expected}",
        )
        print(f"| {' | '.join(cells)} |", flush=True)
    print(f"load average {psutil.getloadavg()[0]:.1f}")
    return 0 if whole else 1


def _reply_bytes(served: Served, size: Size) -> int:
    with loads.channel_to(served.address) as channel:
        reply: bytes = channel.unary_unary(SERVICE + "ExecuteOperator")(loads.unary_request(size))
    return len(reply)


def _measure(served: Served, method: str, request: bytes, reply_bytes: int, load: Load) -> Outcome:
    served.forget_peak()
    cpu_s = served.cpu_s()
    with tempfile.NamedTemporaryFile() as frame:
        frame.write(PREFIX.pack(0, len(request)) + request)
        frame.flush()
        command = ["h2load", "--data", frame.name, "--requests", str(load.calls), "--clients", str(load.connections)]
        command += ["--max-concurrent-streams", str(load.streams), "--connection-inactivity-timeout", str(LIMIT_S)]
        command += ["--window-bits", _WINDOW_BITS, "--connection-window-bits", _WINDOW_BITS]
        command += ["--header", "content-type: application/grpc", "--header", "te: trailers"]
        told = subprocess.run(
            [*command, f"http://{served.address}{method}"], capture_output=True, text=True, timeout=LIMIT_S, check=True
        ).stdout
    cpu_s = served.cpu_s() - cpu_s
    rate, succeeded = _find(r"finished in \S+, ([\d.]+) req/s", told), _find(r"(\d+) succeeded", told)
    data = _find(r"\((\d+)\) data", told)
    gradients = round(data / (reply_bytes + PREFIX.size))
    return Outcome(rate, int(succeeded), gradients, cpu_s / load.calls * 1e3, served.peak_bytes() / 1e6)


def _find(pattern: str, told: str) -> float:
    found = re.search(pattern, told)
    if found is None:
        raise RuntimeError(f"h2load has told no {pattern}: {told}")
    return float(found[1])


if __name__ == "__main__":
    sys.exit(main())
