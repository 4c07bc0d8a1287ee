"""Calls as h2load makes and counts them: a load generator in C takes little of the machine from the server."""

import re
import statistics
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import grpc

from tools.benchmarks.loads import Load, channel_to
from tools.benchmarks.measure import ServerUnderTest

MOST_CONNECTIONS: Final = 4
WARM_UP_S: Final = 0.3
LONGEST_S: Final = 20.0
_FRAME: Final = struct.Struct(">BI")
_WINDOW_BITS: Final = "24"
_DATA: Final = re.compile(r"\((\d+)\) data")


class NotServedError(RuntimeError):
    """The server does not have the method, or refuses the row's calls."""


def check(address: str, load: Load, *metadata: tuple[str, str]) -> bytes:
    """Makes one call and returns its reply: h2load counts errors of gRPC as successes."""
    with channel_to(address) as channel:
        try:
            replies = list(load.send(channel)(iter(load.messages), wait_for_ready=True, metadata=metadata))
        except grpc.RpcError as error:
            raise NotServedError(error.code().name) from error
    if sum(map(len, replies)) < load.least_bytes:
        raise NotServedError(f"{sum(map(len, replies))} bytes came back, and the gradient has {load.least_bytes}")
    return b"".join(replies)


def measure(
    address: str,
    load: Load,
    at_once: int,
    seconds: float,
    *metadata: tuple[str, str],
    of: ServerUnderTest | None = None,
) -> dict[str, float]:
    """Returns calls/s and latencies, and for each call the CPU time of the server, with its peak of memory."""
    connections = min(at_once, MOST_CONNECTIONS)
    with tempfile.TemporaryDirectory() as folder:
        frames, log = Path(folder) / "frames", Path(folder) / "log"
        frames.write_bytes(b"".join(_FRAME.pack(0, len(each)) + each for each in load.messages))
        command = ["h2load", "--data", str(frames), "--clients", str(connections)]
        command += ["--max-concurrent-streams", str(at_once // connections)]
        command += ["--window-bits", _WINDOW_BITS, "--connection-window-bits", _WINDOW_BITS]
        for name, value in (("content-type", "application/grpc"), ("te", "trailers"), *metadata):
            command += ["--header", f"{name}: {value}"]
        is_local = address.startswith("unix:")
        command += ["--base-uri", address] if is_local else []
        url = f"http://{'localhost' if is_local else address}{load.method}"
        # A first, short run warms up, so that the CPU time is that of the calls that are counted.
        _run([*command, "--duration", f"{round(WARM_UP_S * 1e3)}ms", url])
        if of is not None:
            of.forget_peak()
            cpu_s = of.cpu_s()
        told = _run([*command, "--duration", f"{round(seconds * 1e3)}ms", "--log-file", str(log), url])
        calls = [tuple(map(int, line.split("\t"))) for line in log.read_text().splitlines()]
    received = _DATA.search(told)
    if not calls and seconds < LONGEST_S:
        return measure(address, load, at_once, 4 * seconds, *metadata, of=of)  # none has ended: a slow machine
    if not calls or received is None or int(received[1]) < len(calls) * load.least_bytes:
        raise NotServedError(f"h2load got no gradients of {load.least_bytes} bytes: {told}")
    latencies_ms = sorted(latency / 1e3 for _, _, latency in calls)
    first, last = min(start for start, _, _ in calls), max(start + latency for start, _, latency in calls)
    figures = {
        "calls_per_s": len(calls) / (last - first) * 1e6,
        "p50_ms": statistics.median(latencies_ms),
        "p99_ms": latencies_ms[min(len(calls) - 1, len(calls) * 99 // 100)],
    }
    if of is not None:
        figures |= {"cpu_us": (of.cpu_s() - cpu_s) / len(calls) * 1e6, "peak_bytes": of.peak_bytes()}
    return figures


def _run(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
