"""Says how many calls and programs a second may be promised; then loads a server and a bare echo by scenarios, and
judges the server by their objectives."""

import argparse
import json
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import psutil

import aclgrad
from aclgrad.commands.bench_report import PAGE, Early, find_promises
from aclgrad.commands.called import operator_called, ten_steps_called
from aclgrad.commands.load_page import headline
from aclgrad.commands.promise import Search
from aclgrad.products import Product
from tools.benchmarks.measure import running
from tools.benchmarks.sizes import OPERATOR
from tools.lab.known import WrongGradientError
from tools.lab.load import calls, report, scenario
from tools.lab.load.figures import Ends, Stay, Watch, rows_of
from tools.lab.load.objectives import Run, judge
from tools.lab.load.scenario import Scenario
from tools.serving import Server

FOLDER: Final = Path("build/load")
SHORT: Final = "short"
"""A bit of several others, for continuous integration; it is run only by name."""
LIMIT_MS: Final = 20.0
PROBE_S: Final = 3.0
SHORT_S: Final = 0.3
"""How long a rate is offered."""
STACK_BYTES: Final = 2**18
"""Of each caller's thread: there may be hundreds."""


class Pool:
    """The callers of one call, each with the connection that it had before."""

    def __init__(self, targets: calls.Targets, kind: str, checked: float = 0.0, **options: Any) -> None:
        self.is_of_echo = "echo" in kind
        self.sampler = calls.Sampler(checked, seed=len(kind))
        self._make = lambda: calls.KINDS[kind](targets, self.sampler, **options)
        self._callers: list[calls.Caller] = []

    def lease(self, count: int) -> list[calls.Caller]:
        self._callers += [self._make() for _ in range(count - len(self._callers))]
        return self._callers[:count]


def _repeat(caller: calls.Caller, end: float, ends: Ends) -> None:
    """Makes one call after the other."""
    while (start := time.monotonic()) < end:
        try:
            size_bytes = caller()
        except Exception as error:
            ends.errors.append((time.monotonic(), _name_of(error), getattr(error, "retry_after_s", None) is not None))
        else:
            done = time.monotonic()
            ends.answers.append((done, done - start, size_bytes))


def _name_of(error: Exception) -> str:
    """Returns the reason of an error of ours; what gRPC's core made has none, and goes by its type and code."""
    if isinstance(error, WrongGradientError):
        return f"wrong gradient: {error}"
    if isinstance(error, aclgrad.AclgradError):
        return error.reason or f"{type(error).__name__} {error.code.name}"
    return f"{type(error).__name__}: {str(error)[:200]}"


def _stage(turn: int, stage: scenario.Stage, pools: dict[str, Pool]) -> Stay:
    """Has as many callers as the stage says make calls, and waits for the last of them."""
    work = [(name, caller) for name, count in stage.callers.items() for caller in pools[name].lease(count)]
    random.shuffle(work)
    stay = Stay(turn, stage, time.monotonic(), {name: [] for name in stage.callers})
    threads = []
    for name, caller in work:
        ends = Ends()
        stay.ends[name].append(ends)
        threads.append(threading.Thread(target=_repeat, args=(caller, stay.end, ends)))
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    return stay


def _run(chosen: Scenario) -> Run:
    """Runs a scenario on a server and an echo of its own."""
    config = FOLDER / f"{chosen.name}.acl.json"
    config.write_text(json.dumps({"host": chosen.device}))
    print(f"{chosen.name}: {chosen.about} {chosen.seconds:.0f} s", flush=True)
    with (
        Server("--log-level", "warning", "--acl-config", str(config), *chosen.server) as server,
        running("tools.benchmarks.ceilings") as echo,
    ):
        targets = calls.Targets(server.address, echo.address)
        pools = {name: Pool(targets, **options) for name, options in chosen.calls.items()}
        # Has the definitions computed before the clock runs.
        for pool in pools.values():
            pool.lease(1)
        processes = {"server": server.process_id, "echo": echo.process_id, "generator": psutil.Process().pid}
        with Watch(processes) as watch:
            stays = [_stage(turn, stage, pools) for turn, stage in chosen.schedule]
        log = server.log
    rows = rows_of(stays, watch, {name for name, pool in pools.items() if pool.is_of_echo})
    # Those outside of the windows as well: no error may go unheard.
    every = [ends for stay in stays for of_call in stay.ends.values() for ends in of_call]
    errors = Counter(name for ends in every for _, name, _ in ends.errors)
    compared = sum(pool.sampler.compared for pool in pools.values())
    return Run(chosen, tuple(rows), errors, compared, log)


def main(parser: argparse.ArgumentParser, words: Sequence[str]) -> int:
    known = scenario.names()
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of {', '.join(known)}; all but {SHORT}")
    parser.add_argument("--factor", type=float, default=1.0, help="stages of so many times their length")
    parser.add_argument("--p99-ms", type=float, default=LIMIT_MS, help="what p99 may take at the promised rate")
    flags = parser.parse_args(words)
    if unknown := sorted({*flags.scenarios} - {*known}):
        parser.error(f"there is no scenario {unknown[0]!r}; there are {', '.join(known)}")
    is_short = flags.scenarios == [SHORT]
    aclgrad.tune_allocator()
    threading.stack_size(STACK_BYTES)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    searches, runs, early, address = [], list[Run](), "interrupted, or a scenario broke off", ""
    try:
        with Server("--log-level", "warning") as server:
            address = server.address
            searches, ended = _promises(address, flags.p99_ms, SHORT_S if is_short else PROBE_S * flags.factor)
        print(headline(searches), flush=True)
        for name in (flags.scenarios or [each for each in known if each != SHORT]) if ended is None else ():
            runs.append(_run(scenario.read(name).scaled(flags.factor)))
            print(report.text(runs[-1]), flush=True)
        early = ended.why if ended else ""
    finally:
        # What was measured before a scenario broke off, or somebody pressed Ctrl-C, is told all the same.
        report.write(FOLDER, address, searches, runs, early)
        print(f"the report is in {FOLDER}/{PAGE}")
    # The short form does not promise: its rates are too short for p99.
    is_promised = is_short or all(each.promised for each in searches)
    is_kept = all(judged.passed for run in runs for judged in judge(run))
    return 0 if not early and is_promised and is_kept else 1


def _promises(address: str, limit_ms: float, seconds: float) -> tuple[list[Search], Early | None]:
    with aclgrad.Client(address) as client:
        product = Product(client.server_status().product)
    called = [operator_called(product, OPERATOR, "float32", "16 KB"), ten_steps_called(product)]
    return find_promises(address, called, limit_ms, seconds, calls.DEADLINE_S)
