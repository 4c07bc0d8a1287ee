"""What a native `execute` costs without gRPC, and what the memory pool keeps: a part of `make bench`."""

import json
import multiprocessing
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import aclgrad_native
from aclgrad_native import Device, ReplyBuffer

SYMBOL = "aclnnAdaptiveAvgPool2dBackward"
FLOAT32 = 0
REPEATS = 3
STREAMS = (1, 2, 4, 8)
THREADS = 8
EXECUTORS = 64
CALLS = 20_000
SMALL = ((1, 16, 8, 8), (1, 16, 16, 16))  # a gradient of 16 KB
MIXED_CALLS = 2_000


class Call:
    """One call to be repeated: the arguments are made once, the reply each time."""

    def __init__(self, pooled: tuple[int, ...], shape: tuple[int, ...]) -> None:
        grad = np.random.default_rng(0).standard_normal(pooled, np.float32)
        self._inputs = [(pooled, FLOAT32, grad.tobytes()), (shape, FLOAT32, None)]
        self._shape = shape
        self._size = 4 * int(np.prod(shape))

    def __call__(self, device: Device) -> None:
        reply = ReplyBuffer([(b"", self._size)])
        device.execute((SYMBOL, self._inputs, [], self._shape, FLOAT32, reply.parts()[0], []), 60_000)
        reply.finish()


def calls_per_second(device: Device, call: Call, threads: int, count: int = CALLS) -> float:
    """Returns the rate of `count` calls made by so many threads."""
    with ThreadPoolExecutor(threads) as pool:
        pool.submit(call, device).result()
        start = time.perf_counter()
        for end in [pool.submit(_repeat, call, device, count // threads) for _ in range(threads)]:
            end.result()
        return count / (time.perf_counter() - start)


def _repeat(call: Call, device: Device, count: int) -> None:
    for _ in range(count):
        call(device)


def in_own_process(config: dict[str, Any], work: Callable[[aclgrad_native.AclLibrary], Any]) -> Any:
    """Runs work on a host library of this configuration, which a process reads once."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as process:
        path = Path(folder) / "acl.json"
        path.write_text(json.dumps({"host": config}))
        return process.apply(_on_library, (str(path), work))


def _on_library(config: str, work: Callable[[aclgrad_native.AclLibrary], Any]) -> Any:
    return work(aclgrad_native.open("host", config))


def executor_reuse(library: aclgrad_native.AclLibrary) -> dict[str, float]:
    """Returns calls/s of one thread, with executors kept and without."""
    devices = {
        name: Device(library, 0, pool_limit_bytes=None, stream_limit=1, executor_limit=limit)
        for name, limit in (("executors kept", EXECUTORS), ("phase 1 each time", 0))
    }
    call = Call(*SMALL)
    rates = [{name: calls_per_second(device, call, 1) for name, device in devices.items()} for _ in range(REPEATS)]
    return {name: statistics.median(rate[name] for rate in rates) for name in devices}


def stream_scaling(library: aclgrad_native.AclLibrary) -> dict[int, float]:
    """Returns calls/s of 8 threads by the number of streams that they share."""
    call = Call(*SMALL)
    rates: dict[int, list[float]] = {streams: [] for streams in STREAMS}
    for _ in range(REPEATS):
        for streams, measured in rates.items():
            device = Device(library, 0, pool_limit_bytes=None, stream_limit=streams, executor_limit=EXECUTORS)
            measured.append(calls_per_second(device, call, THREADS))
    return {streams: statistics.median(measured) for streams, measured in rates.items()}


def pool_waste(library: aclgrad_native.AclLibrary) -> float:
    """Returns reserved/allocated bytes, each at its peak, after calls of 4 KB to 40 MB from 8 threads."""
    device = Device(library, 0, pool_limit_bytes=None, stream_limit=8)
    shuffled = random.Random(0)
    sizes = [int(2 ** shuffled.uniform(5, 11.6)) for _ in range(MIXED_CALLS)]
    with ThreadPoolExecutor(THREADS) as pool:
        for end in [pool.submit(Call((1, 4, 4), (1, size, size)), device) for size in sizes]:
            end.result()
    kept = device.pool_statistics()
    return kept.peak_reserved_bytes / kept.peak_allocated_bytes


@dataclass(frozen=True, slots=True)
class RuntimeFigures:
    """Calls/s of native calls with a 16 KB gradient, and the bytes of the pool."""

    executor_reuse: dict[str, float]
    streams: dict[str, dict[int, float]]
    """Kind of device -> number of streams -> calls/s of 8 threads."""
    pool_waste: float

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what was measured, in words, and the figure."""
        base = self.executor_reuse["phase 1 each time"]
        for name, rate in self.executor_reuse.items():
            yield f"one thread, {name}", f"{rate:.0f} calls/s, {rate / base:.2f}x"
        for kind, rates in self.streams.items():
            for streams, rate in rates.items():
                yield f"{THREADS} threads, {streams} streams, {kind}", f"{rate:.0f} calls/s, {rate / rates[1]:.2f}x"
        yield "pool, reserved/allocated at their peaks", f"{self.pool_waste:.2f}"


def measure() -> RuntimeFigures:
    """Measures each figure in a process of its own."""
    return RuntimeFigures(
        in_own_process({}, executor_reuse),
        {
            "no copies": in_own_process({}, stream_scaling),
            "copies": in_own_process({"host_pointers": False}, stream_scaling),
        },
        in_own_process({"host_pointers": False}, pool_waste),
    )
