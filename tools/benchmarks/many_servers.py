"""What one client of several servers does and costs: `python -m tools.benchmarks.many_servers [SECONDS]`.

* The calls of each worker of a host of three, as the busiest over the mean, with one caller and with eight.
* The share of a server whose kernels take ten times as long as those of two others, over an equal share: with all
  callers that they can have, from the fifth second on.
* The first call of a new client, over that of a plain channel of grpc to the same address, the channel included.
* Time on the CPU of the client for each call to two workers, over that of a client that stays at the shared address.
"""

import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np

import aclgrad
from aclgrad import CallReport
from aclgrad.wire.service import path_of
from tools.benchmarks import loads
from tools.benchmarks.sizes import SIZES
from tools.serving import Server, write_host_config

GRAD: Final = np.ones((1, 4, 7, 5), np.float32)
SHAPE: Final = (1, 4, 32, 32)  # 16 KB
FAST_MS, SLOW_MS, SATURATING = 10, 100, 24
SETTLES_S: Final = 5.0
FIRST_CALLS, CPU_CALLS, ROUNDS = 40, 2_000, 5
AT_THE_DOOR: Final = {"channel_options": [("grpc.service_config", "{}")]}


def call(client: aclgrad.Client) -> None:
    client.adaptive_avg_pool2d_backward(GRAD, SHAPE)


@contextmanager
def calling(client: aclgrad.Client, callers: int) -> Iterator[None]:
    """Makes calls from so many threads to the end of the block; raises the first error of one."""
    done, errors = threading.Event(), []

    def run() -> None:
        try:
            while not done.is_set():
                call(client)
        except aclgrad.AclgradError as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(callers)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        done.set()
        for each in threads:
            each.join()
    for error in errors:
        raise error


def counted(target: str | list[str], callers: int, seconds: float) -> Counter[str | None]:
    """Returns the calls of each server after some seconds, in which the client has learnt of all of them."""
    reports: list[CallReport] = []
    with aclgrad.Client(target, on_call=reports.append) as client, calling(client, callers):
        time.sleep(SETTLES_S)
        begin = len(reports)
        time.sleep(seconds)
        end = len(reports)
    return Counter(report.server for report in reports[begin:end])


def evenness(host: Server, workers: int, callers: int, seconds: float) -> float:
    counts = counted(host.address, callers, seconds)
    return max(counts.values()) * workers / counts.total()


def share_of_slow(folder: Path, seconds: float) -> float:
    """Returns what one of three servers gets, over a third."""
    servers = []
    for number, duration_ms in enumerate((SLOW_MS, FAST_MS, FAST_MS)):
        kernels = [{"kind": "hang", "at": 1, "count": 10**9, "duration_ms": duration_ms}]
        (folder / str(number)).mkdir()
        servers.append(Server("--acl-config", write_host_config(folder / str(number), faults=kernels)))
    with servers[0] as slow, servers[1] as first, servers[2] as second:
        counts = counted([slow.address, first.address, second.address], SATURATING, seconds)
        return 3 * counts[slow.address] / counts.total()


def first_call_s(address: str) -> float:
    begin = time.perf_counter()
    with aclgrad.Client(address) as client:
        call(client)
        return time.perf_counter() - begin


def first_plain_call_s(address: str) -> float:
    request = loads.unary_request(SIZES["16 KB"])
    begin = time.perf_counter()
    # Channels of one process share connections otherwise.
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        channel.unary_unary(path_of("ExecuteOperator"))(request)
        return time.perf_counter() - begin


def cpu_us(client: aclgrad.Client, callers: int) -> float:
    """Returns the time on the CPU of this process for each call."""
    barrier = threading.Barrier(callers)

    def run() -> None:
        barrier.wait()
        for _ in range(CPU_CALLS // callers):
            call(client)

    threads = [threading.Thread(target=run) for _ in range(callers)]
    begin = time.process_time()
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return 1e6 * (time.process_time() - begin) / CPU_CALLS


def in_turns(measure: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in measure}
    for number in range(rounds):
        for name in list(measure) if number % 2 == 0 else reversed(measure):
            found[name].append(measure[name]())
    return found


def told(what: str, unit: str, found: dict[str, list[float]]) -> None:
    (name, ours), (other_name, others) = found.items()
    ratio = statistics.median(its / theirs for its, theirs in zip(ours, others, strict=True))
    middles = f"{name} {statistics.median(ours):.1f} {unit}, {other_name} {statistics.median(others):.1f} {unit}"
    print(f"{what}: {middles}: {ratio:.2f}", flush=True)


def main() -> None:
    """Prints a line for each figure."""
    seconds = float(sys.argv[1]) if sys.argv[1:] else 10.0
    with Server("--workers", "3") as host:
        for callers in (1, 8):
            ratio = evenness(host, 3, callers, seconds)
            print(f"busiest of three workers over the mean, {callers} at once: {ratio:.3f}", flush=True)
        measure: dict[str, Any] = {
            "ours": lambda: 1e3 * first_call_s(host.address),
            "plain": lambda: 1e3 * first_plain_call_s(host.address),
        }
        told("first call", "ms", in_turns(measure, FIRST_CALLS))
    with tempfile.TemporaryDirectory() as folder:
        ratio = share_of_slow(Path(folder), seconds)
    print(f"share of a server ten times slower, over an equal one: {ratio:.3f}", flush=True)
    with (
        Server("--workers", "2") as host,
        aclgrad.Client(host.address) as workers,
        aclgrad.Client(host.address, **AT_THE_DOOR) as door,
    ):
        for client in (workers, door):
            with calling(client, 1):
                time.sleep(SETTLES_S)
        for callers in (1, 8):
            measure = {
                "workers": lambda callers=callers: cpu_us(workers, callers),
                "shared address": lambda callers=callers: cpu_us(door, callers),
            }
            told(f"client's CPU for a call, {callers} at once", "us", in_turns(measure, ROUNDS))


if __name__ == "__main__":
    main()
