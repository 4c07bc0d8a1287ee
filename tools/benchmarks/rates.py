"""Unary calls per second as h2load counts them: a load generator in C takes little of the machine from the server.

Every server is measured in each round, in turns, and the ratios are those within a round.
"""

import re
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from typing import Final

from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings, loads
from tools.benchmarks.measure import Served, running
from tools.benchmarks.sizes import SIZES, Size
from tools.benchmarks.wire import SERVER, SERVER_FLAGS

AT_ONCE: Final = (1, 4, 16)
SIZE_NAMES: Final = ("16 KB", "1 MB", "6.4 MB")
LEAST: Final = {
    **{("16 KB", at_once): ratio for at_once, ratio in zip(AT_ONCE, (0.45, 0.85, 0.9), strict=True)},
    **{(size, at_once): 0.95 for size in SIZE_NAMES[1:] for at_once in AT_ONCE},
}
"""The ratios to the echo that are promised of this server."""
_FRAME: Final = struct.Struct(">BI")
_WINDOW_BITS: Final = "24"
_EXECUTE: Final = SERVICE + "ExecuteOperator"


@dataclass(frozen=True, slots=True)
class Rate:
    """Median calls/s of one server at one size and number of calls at once, and the ratio to the echo's."""

    server: str
    size: str
    at_once: int
    calls_per_s: float
    ratio: float

    def cells(self) -> tuple[str, str, str]:
        """Returns calls/s, the ratio, and the least ratio that is promised, as text."""
        least = LEAST.get((self.size, self.at_once)) if self.server == "aclgrad" else None
        return f"{self.calls_per_s:.0f}", f"{self.ratio:.2f}", "" if least is None else str(least)


def measure(sizes: Sequence[str], rounds: int, seconds: float, plain_echo: bool = False) -> list[Rate]:
    """Returns, and prints as they come, the rates of the echo, of the naive server and of this one."""
    found = []
    echo_flags = ("--plain-allocator",) if plain_echo else ()
    with ExitStack() as stack:
        servers = {
            "echo": stack.enter_context(running("tools.benchmarks.ceilings", *echo_flags)),
            "naive": stack.enter_context(running("tools.benchmarks.naive")),
            "aclgrad": stack.enter_context(running(SERVER, *SERVER_FLAGS)),
        }
        for name, at_once in product(sizes, AT_ONCE):
            rates: dict[str, list[float]] = {server: [] for server in servers}
            for number in range(rounds):
                for server in sorted(rates, reverse=number % 2 == 1):
                    rates[server].append(_rate(servers[server], server, SIZES[name], at_once, seconds))
            for server, each in rates.items():
                ratios = [mine / echo for mine, echo in zip(each, rates["echo"], strict=True)]
                rate = Rate(server, name, at_once, statistics.median(each), statistics.median(ratios))
                print(f"{name:>7} {at_once:>3} {server:<8}", *(f"{cell:>8}" for cell in rate.cells()), flush=True)
                found.append(rate)
    return found


def _rate(served: Served, server: str, size: Size, at_once: int, seconds: float) -> float:
    is_echo = server == "echo"
    request = loads.echo_request(size) if is_echo else loads.unary_request(size)
    connections = min(at_once, 4)
    with tempfile.NamedTemporaryFile() as frame:
        frame.write(_FRAME.pack(0, len(request)) + request)
        frame.flush()
        command = [
            "h2load",
            "--data",
            frame.name,
            "--duration",
            f"{round(seconds * 1000)}ms",
            "--warm-up-time",
            "300ms",
        ]
        command += ["--clients", str(connections), "--max-concurrent-streams", str(at_once // connections)]
        command += ["--window-bits", _WINDOW_BITS, "--connection-window-bits", _WINDOW_BITS]
        command += ["--header", "content-type: application/grpc", "--header", "te: trailers"]
        url = f"http://{served.address}{ceilings.UNARY if is_echo else _EXECUTE}"
        told = subprocess.run([*command, url], capture_output=True, text=True, timeout=60, check=True).stdout
    found = re.search(r"finished in \S+, ([\d.]+) req/s", told)
    assert found is not None, told
    return float(found[1])
