"""The cost of a native call without gRPC, and the memory that the pool keeps: a part of `make bench`."""

import json
import multiprocessing
import random
import select
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

import aclgrad_native
from aclgrad_native import CallPlan, Completions, Device, OutputUse

SYMBOL = "aclnnAdaptiveAvgPool2dBackward"
FLOAT32 = 0
REPEATS = 3
STREAMS = (1, 2, 4, 8)
AT_ONCE = 8
EXECUTORS = 64
CALLS = 20_000
SMALL = ((1, 16, 8, 8), (1, 16, 16, 16))  # a gradient of 16 KB
MIXED_CALLS = 2_000
TIMEOUT_S = 60.0


class Call:
    """One call to be repeated: the plan and the inputs are made once, the reply each time."""

    def __init__(self, pooled: tuple[int, ...], shape: tuple[int, ...]) -> None:
        grad = np.random.default_rng(0).standard_normal(pooled, np.float32)
        inputs = [(pooled, FLOAT32, False, None), (shape, FLOAT32, False, None)]
        output = (shape, FLOAT32, 4 * int(np.prod(shape)), b"", OutputUse.RETURNED)
        self.plan = CallPlan(SYMBOL, inputs, [], [output])
        self.contents = [grad.tobytes(), None]


class BenchedDevice:
    """A device, and one thread that submits to it and waits, as the server's does."""

    def __init__(self, library: aclgrad_native.AclLibrary, *, streams: int, executors: int) -> None:
        self._completions = Completions()
        self._device = Device(
            library, 0, self._completions, pool_limit_bytes=None, stream_limit=streams, executor_limit=executors
        )

    def run(self, calls: Iterable[Call], at_once: int) -> None:
        """Makes these calls, several at once."""
        left, under_way = iter(calls), 0
        for _ in range(at_once):
            under_way += self._submit(left)
        while under_way:
            for _ in self._wait():
                under_way += self._submit(left) - 1

    def pool(self) -> aclgrad_native.PoolStatistics:
        self._device.state(None)
        (state,) = self._wait()
        kept: aclgrad_native.PoolStatistics = state[2]
        return kept

    def _submit(self, calls: Iterator[Call]) -> int:
        """Submits the next call, and says whether there was one."""
        call = next(calls, None)
        if call is not None:
            self._device.submit(None, call.plan, call.contents, time.monotonic() + TIMEOUT_S)
        return call is not None

    def _wait(self) -> list[Any]:
        if not select.select([self._completions.file], [], [], TIMEOUT_S)[0]:
            raise TimeoutError(f"no call ended within {TIMEOUT_S:g} s")
        results = [result for _, result in self._completions.drain()]
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results


def calls_per_second(device: BenchedDevice, call: Call, at_once: int, count: int = CALLS) -> float:
    """Returns the rate of `count` calls, so many at once."""
    device.run([call], 1)
    start = time.perf_counter()
    device.run(repeat(call, count), at_once)
    return count / (time.perf_counter() - start)


def in_own_process(config: dict[str, Any], work: Callable[[aclgrad_native.AclLibrary], Any]) -> Any:
    """Runs work on a host library of this configuration, which a process reads once."""
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as process:
        path = Path(folder) / "acl.json"
        path.write_text(json.dumps({"host": config}))
        return process.apply(_on_library, (str(path), work))


def _on_library(config: str, work: Callable[[aclgrad_native.AclLibrary], Any]) -> Any:
    return work(aclgrad_native.open("host", config))


def executor_reuse(library: aclgrad_native.AclLibrary) -> dict[str, float]:
    """Returns calls/s, one at a time, with executors kept and without."""
    devices = {
        name: BenchedDevice(library, streams=1, executors=limit)
        for name, limit in (("executors kept", EXECUTORS), ("phase 1 each time", 0))
    }
    call = Call(*SMALL)
    rates = [{name: calls_per_second(device, call, 1) for name, device in devices.items()} for _ in range(REPEATS)]
    return {name: statistics.median(rate[name] for rate in rates) for name in devices}


def stream_scaling(library: aclgrad_native.AclLibrary) -> dict[int, float]:
    """Returns calls/s of 8 calls at once by the number of streams that they share."""
    call = Call(*SMALL)
    rates: dict[int, list[float]] = {streams: [] for streams in STREAMS}
    for _ in range(REPEATS):
        for streams, measured in rates.items():
            device = BenchedDevice(library, streams=streams, executors=EXECUTORS)
            measured.append(calls_per_second(device, call, AT_ONCE))
    return {streams: statistics.median(measured) for streams, measured in rates.items()}


def pool_waste(library: aclgrad_native.AclLibrary) -> float:
    """Returns reserved/allocated bytes, each at its peak, after calls of 4 KB to 40 MB, 8 at once."""
    device = BenchedDevice(library, streams=8, executors=0)
    shuffled = random.Random(0)
    sizes = [int(2 ** shuffled.uniform(5, 11.6)) for _ in range(MIXED_CALLS)]
    device.run((Call((1, 4, 4), (1, size, size)) for size in sizes), AT_ONCE)
    kept = device.pool()
    return kept.peak_reserved_bytes / kept.peak_allocated_bytes


@dataclass(frozen=True, slots=True)
class RuntimeFigures:
    """Calls/s of native calls with a 16 KB gradient, and the bytes of the pool."""

    executor_reuse: dict[str, float]
    streams: dict[str, dict[int, float]]
    """Kind of device -> number of streams -> calls/s of 8 calls at once."""
    pool_waste: float

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yields what was measured, in words, and the figure."""
        base = self.executor_reuse["phase 1 each time"]
        for name, rate in self.executor_reuse.items():
            yield f"one at a time, {name}", f"{rate:.0f} calls/s, {rate / base:.2f}x"
        for kind, rates in self.streams.items():
            for streams, rate in rates.items():
                yield f"{AT_ONCE} at once, {streams} streams, {kind}", f"{rate:.0f} calls/s, {rate / rates[1]:.2f}x"
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
