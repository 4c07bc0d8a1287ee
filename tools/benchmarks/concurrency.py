"""Measures the ways of one client to make many small calls, and what `out=` saves; `--quick` for less.

`python -m tools.benchmarks.concurrency` prints medians of rounds in which every way takes its turn. Beside the rates it
tells the client's CPU time for a call, which depends less on what else the machine does.
"""

import asyncio
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

import numpy as np

import aclgrad
from tools.serving import Server

SHAPE: Final = (1, 16, 16, 16)
"""16 KB, pooled to the same size."""
GRAD_OUTPUT: Final = np.ones(SHAPE, np.float32)
BATCH: Final = 64
LARGE: Final = {"6.4 MB": (2, 800, 1000), "100 MB": (25, 1000, 1000)}
ROUNDS: Final = 5
CALLS: Final = 6400


def main() -> None:
    rounds, calls = (1, CALLS // 10) if "--quick" in sys.argv else (ROUNDS, CALLS)
    with Server() as server:
        figures: dict[str, list[tuple[float, float]]] = {}
        for _ in range(rounds):
            for name, run in ways(server.address, calls).items():
                figures.setdefault(name, []).append(timed(run, calls))
        base_rate, base_cpu_us = (statistics.median(column) for column in zip(*figures["batches of 64"], strict=True))
        print(f"{'':28}  calls/s  ratio  CPU us/call  ratio")
        for name, each in figures.items():
            rate, cpu_us = (statistics.median(column) for column in zip(*each, strict=True))
            print(f"{name:28} {rate:8.0f} {rate / base_rate:6.2f} {cpu_us:12.0f} {base_cpu_us / cpu_us:6.2f}")
        for size, shape in LARGE.items():
            print(size, "without and with out=:", *out_figures(server.address, shape, 2 * rounds))


def ways(address: str, calls: int) -> dict[str, Callable[[], Any]]:
    """Returns the ways to make so many calls."""
    ways: dict[str, Callable[[], Any]] = {"batches of 64": lambda: asyncio.run(batches(address, calls))}
    for at_once in (256, 16, 1):
        run = partial(tasks, address, calls, at_once)
        ways[f"{at_once} tasks"] = lambda run=run: asyncio.run(run())
    for at_once in (64, 16, 1):
        ways[f"{at_once} threads"] = partial(threads, address, calls, at_once)
    return ways


def timed(run: Callable[[], Any], calls: int) -> tuple[float, float]:
    """Returns calls/s, and microseconds of CPU time of this process for each."""
    start, cpu_start = time.perf_counter(), time.process_time()
    run()
    seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
    return calls / seconds, cpu_s / calls * 1e6


async def batches(address: str, calls: int) -> None:
    async with aclgrad.AsyncClient(address) as client:
        for _ in range(calls // BATCH):
            batch = client.batch()
            for _ in range(BATCH):
                batch.adaptive_avg_pool2d_backward(GRAD_OUTPUT, SHAPE)
            await batch.run()


async def tasks(address: str, calls: int, at_once: int) -> None:
    # A server takes 100 calls of a connection at a time, which a client learns only when it has connected.
    async with aclgrad.AsyncClient(address, retries=100) as client:

        async def make(count: int) -> None:
            for _ in range(count):
                await client.adaptive_avg_pool2d_backward(GRAD_OUTPUT, SHAPE)

        await make(1)
        several: list[Awaitable[None]] = [make(calls // at_once) for _ in range(at_once)]
        await asyncio.gather(*several)


def threads(address: str, calls: int, at_once: int) -> None:
    with aclgrad.Client(address) as client, ThreadPoolExecutor(at_once) as pool:

        def make(_: int) -> None:
            for _ in range(calls // at_once):
                client.adaptive_avg_pool2d_backward(GRAD_OUTPUT, SHAPE)

        list(pool.map(make, range(at_once)))


def out_figures(address: str, shape: tuple[int, ...], repeats: int) -> tuple[str, str]:
    """Returns the median time and page faults of a large call, with a new array each time and with the same one."""
    grad_output, out = np.ones(shape, np.float32), np.zeros(shape, np.float32)
    found: dict[bool, list[tuple[float, int]]] = {False: [], True: []}
    with aclgrad.Client(address) as client:
        for _ in range(repeats):
            for has_out, figures in found.items():
                faults, start = resource.getrusage(resource.RUSAGE_SELF).ru_minflt, time.perf_counter()
                client.adaptive_avg_pool2d_backward(grad_output, shape, out=out if has_out else None)
                seconds = time.perf_counter() - start
                figures.append((seconds, resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults))
    medians = [[statistics.median(column) for column in zip(*each, strict=True)] for each in found.values()]
    without, with_out = (f"{seconds * 1e3:.1f} ms and {faults:.0f} page faults" for seconds, faults in medians)
    return without + ",", with_out


if __name__ == "__main__":
    main()
