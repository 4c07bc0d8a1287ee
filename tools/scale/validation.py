"""Two figures of the page against a server of this machine: CPU time per gradient, and the wait before a card."""

import asyncio
import itertools
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import psutil

import aclgrad
from tools.benchmarks.loads import gradient
from tools.benchmarks.sizes import OPERATOR, SIZES
from tools.scale.figures import LOADS, TARGET, Load
from tools.scale.formulas import wait_of_one
from tools.serving import Server, write_host_config

SECONDS: Final = 20.0
WAIT_SECONDS: Final = 60.0
RATES: Final = {"16 KB": 400, "1 MB": 100, "6.4 MB": 20}
"""Calls a second: a fifth of a core each."""
KERNEL_S: Final = 0.1
RATE: Final = TARGET / KERNEL_S
SIZE: Final = "1 MB"
SEED: Final = 1
_WARM_CALLS: Final = 20


def validate() -> None:
    """Prints what is predicted beside what is measured."""
    with Server() as server:
        for load in LOADS:
            if load.name in RATES:
                predicted = RATES[load.name] * load.cpu_ms / 1000
                measured = asyncio.run(_cores(server, load))
                print(f"{load.name}, {RATES[load.name]}/s: {predicted:.2f} cores predicted, {measured:.2f} measured")
    with _card() as server:
        run_s, wait_s = asyncio.run(_run_and_wait_s(server))
        # By the time that kernels took: on a busy machine it is longer than planned.
        ms = [1000 * run_s * wait_of_one(RATE * run_s, 0.0), 1000 * _wait_of_these(run_s), 1000 * wait_s]
        print(
            f"wait for a card at {RATE * run_s:.0%}: {ms[0]:.0f} ms predicted, {ms[1]:.0f} of these arrivals, ", end=""
        )
        print(f"{ms[2]:.0f} measured")


def _gaps(rate: float, seconds: float) -> Iterator[float]:
    """Yields the time between calls that come at random."""
    source = random.Random(SEED)
    at = 0.0
    while at < seconds:
        gap = source.expovariate(rate)
        at += gap
        yield gap


def _wait_of_these(run_s: float) -> float:
    """Returns the mean wait of the arrivals that are measured: few, so it differs from that of very many."""
    waits = [0.0]
    for gap in itertools.islice(_gaps(RATE, WAIT_SECONDS), 1, None):
        waits.append(max(0.0, waits[-1] + run_s - gap))
    return statistics.mean(waits)


@contextmanager
def _card() -> Iterator[Server]:
    """Runs a server that computes one call at a time, each in `KERNEL_S`."""
    slow = {"kind": "hang", "at": 1, "count": 10**9, "duration_ms": round(1000 * KERNEL_S)}
    with tempfile.TemporaryDirectory() as folder:
        config = write_host_config(Path(folder), faults=[slow])
        with Server("--streams", "1", "--acl-config", config) as server:
            yield server


async def _call(client: aclgrad.AsyncClient, size: str) -> None:
    await client.execute(OPERATOR, {"grad_output": gradient(SIZES[size]), "self": SIZES[size].shape})


async def _poisson(client: aclgrad.AsyncClient, size: str, rate: float, seconds: float) -> None:
    """Makes calls that come at random, whatever became of those before."""
    calls = []
    at = time.monotonic()
    for gap in _gaps(rate, seconds):
        at += gap
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        calls.append(asyncio.create_task(_call(client, size)))
    await asyncio.gather(*calls)


async def _cores(server: Server, load: Load) -> float:
    process = psutil.Process(server.process_id)
    async with aclgrad.AsyncClient(server.address) as client:
        for _ in range(_WARM_CALLS):
            await _call(client, load.name)
        before, begin = process.cpu_times(), time.monotonic()
        await _poisson(client, load.name, RATES[load.name], SECONDS)
        after, end = process.cpu_times(), time.monotonic()
    return (after.user + after.system - before.user - before.system) / (end - begin)


async def _run_and_wait_s(server: Server) -> tuple[float, float]:
    """Returns the mean time of a call on the device, and before it, as the server counts them."""
    async with aclgrad.AsyncClient(server.address) as client:
        await _call(client, SIZE)
        before = _stages(server)
        await _poisson(client, SIZE, RATE, WAIT_SECONDS)
        after = _stages(server)
    count = after["run", "count"] - before["run", "count"]
    run_s, wait_s = ((after[stage, "sum"] - before[stage, "sum"]) / count for stage in ("run", "wait"))
    return run_s, wait_s


def _stages(server: Server) -> dict[tuple[str, str], float]:
    with urlopen(f"http://{server.admin}/metrics") as page:
        text = page.read().decode()
    rows = re.findall(r'^aclgrad_stage_duration_seconds_(sum|count)\{stage="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {(stage, kind): float(value) for kind, stage, value in rows}
