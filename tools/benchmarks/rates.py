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
from pathlib import Path
from typing import Final

from aclgrad.wire.service import SERVICE
from tools.benchmarks import ceilings, loads
from tools.benchmarks.measure import Served, busy, running
from tools.benchmarks.sizes import SIZES, Size
from tools.benchmarks.wire import SERVER, SERVER_FLAGS

AT_ONCE: Final = (1, 4, 16)
SIZE_NAMES: Final = ("16 KB", "1 MB", "6.4 MB")
LEAST: Final = {
    **{("16 KB", at_once): (ratio, None) for at_once, ratio in zip(AT_ONCE, (0.65, 0.7, 0.8), strict=True)},
    **{("1 MB", at_once): (None, 0.75) for at_once in AT_ONCE},
    **{("6.4 MB", at_once): (0.85, 0.8) for at_once in AT_ONCE},
}
"""The ratios to the echo and to the fresh echo that are promised of this server."""
_FRAME: Final = struct.Struct(">BI")
_WINDOW_BITS: Final = "24"
_EXECUTE: Final = SERVICE + "ExecuteOperator"


@dataclass(frozen=True, slots=True)
class Rate:
    """Medians of one server at one size and number of calls at once.

    `ratio` is that to the calls/s of the echo in the same round, `fair_ratio` to those of the fresh echo, which
    allocates and writes each reply, as every server of gradients must.
    """

    server: str
    size: str
    at_once: int
    calls_per_s: float
    cpu_us: float
    """CPU time of the server for a call."""
    ratio: float
    fair_ratio: float

    def cells(self) -> tuple[str, ...]:
        """Returns calls/s, CPU time, and both ratios with the least that is promised, as text."""
        promised = LEAST.get((self.size, self.at_once), (None, None)) if self.server == "aclgrad" else (None, None)
        ratios = zip((self.ratio, self.fair_ratio), promised, strict=True)
        told = (f"{ratio:.2f}" + ("" if least is None else f" (least {least:g})") for ratio, least in ratios)
        return f"{self.calls_per_s:.0f}", f"{self.cpu_us:.0f}", *told


def measure(
    sizes: Sequence[str],
    rounds: int,
    seconds: float,
    plain_echo: bool = False,
    against: Path | None = None,
    busy_count: int = 0,
) -> list[Rate]:
    """Returns, and prints as they come, the rates of the echoes, of the naive server and of this one.

    `against` is the folder of programs of another clone, whose server is measured as well.
    """
    found = []
    echo_flags = ("--plain-allocator",) if plain_echo else ()
    with ExitStack() as stack:
        echo = stack.enter_context(running("tools.benchmarks.ceilings", *echo_flags))
        aio_echo = stack.enter_context(running("tools.benchmarks.ceilings", "--aio", *echo_flags))
        naive = stack.enter_context(running("tools.benchmarks.naive"))
        aclgrad = stack.enter_context(running(SERVER, *SERVER_FLAGS))
        targets = {
            "echo": (echo, ceilings.UNARY),
            "fresh echo": (echo, ceilings.FRESH),
            "aio echo": (aio_echo, ceilings.UNARY),
            "naive": (naive, _EXECUTE),
            "aclgrad": (aclgrad, _EXECUTE),
        }
        if against is not None:
            other = stack.enter_context(running(SERVER, *SERVER_FLAGS, python=str(against / "python")))
            targets["against"] = (other, _EXECUTE)
        stack.enter_context(busy(busy_count))
        for name, at_once in product(sizes, AT_ONCE):
            rounds_of: dict[str, list[tuple[float, float]]] = {server: [] for server in targets}
            for number in range(rounds):
                for server in sorted(targets, reverse=number % 2 == 1):
                    rounds_of[server].append(_rate(*targets[server], SIZES[name], at_once, seconds))
            for server, each in rounds_of.items():
                rate = Rate(
                    server,
                    name,
                    at_once,
                    *(statistics.median(column) for column in zip(*each, strict=True)),
                    *(_ratio(each, rounds_of[other]) for other in ("echo", "fresh echo")),
                )
                print(f"{name:>7} {at_once:>3} {server:<10}", *(f"{cell:>8}" for cell in rate.cells()), flush=True)
                found.append(rate)
    return found


def _ratio(mine: Sequence[tuple[float, float]], others: Sequence[tuple[float, float]]) -> float:
    return statistics.median(rate / other for (rate, _), (other, _) in zip(mine, others, strict=True))


def _rate(served: Served, method: str, size: Size, at_once: int, seconds: float) -> tuple[float, float]:
    """Returns calls/s, and microseconds of the server's CPU time for a call."""
    request = loads.unary_request(size) if method == _EXECUTE else loads.echo_request(size)
    connections = min(at_once, 4)
    with tempfile.NamedTemporaryFile() as frame:
        frame.write(_FRAME.pack(0, len(request)) + request)
        frame.flush()
        command = ["h2load", "--data", frame.name, "--duration", f"{round(seconds * 1000)}ms"]
        command += ["--clients", str(connections), "--max-concurrent-streams", str(at_once // connections)]
        command += ["--window-bits", _WINDOW_BITS, "--connection-window-bits", _WINDOW_BITS]
        command += ["--header", "content-type: application/grpc", "--header", "te: trailers"]
        command.append(f"http://{served.address}{method}")
        # A first, short run warms up, so that the CPU time is that of the calls that are counted.
        _run([*command, "--duration", "300ms"])
        cpu_s = served.cpu_s()
        told = _run(command)
        cpu_s = served.cpu_s() - cpu_s
    calls = re.search(r"(\d+) succeeded", told)
    rate = re.search(r"finished in \S+, ([\d.]+) req/s", told)
    assert calls is not None, told
    assert rate is not None, told
    return float(rate[1]), cpu_s / int(calls[1]) * 1e6


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
